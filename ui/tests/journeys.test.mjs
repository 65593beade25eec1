// The journeys of a person who opens the page of a real weir on this host.
import assert from 'node:assert/strict';
import { appendFile, readFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { noWeir, stalledListener, weir } from './fixtures.mjs';

const skip = cannotRun() || noWeir();
/** @type {Awaited<ReturnType<typeof weir>>} */
let server;
before(async () => { if (!skip) server = await weir(); });
after(() => server?.stop());

test('overview_shows_the_listeners_of_this_host', { skip }, async () => {
  const mine = createServer();
  await new Promise(resolve => mine.listen({ port: 0, host: '127.0.0.1', backlog: 77 }, () => resolve(undefined)));
  const { port } = /** @type {any} */ (mine.address());
  try {
    await withPage(server.url, async page => {
      // Owners are looked up at a measured pace, so the process may follow its socket by some seconds.
      const row = page.locator('#listeners tbody tr', { hasText: `127.0.0.1:${port}` }).filter({ hasText: 'node' });
      await row.waitFor({ timeout: 30_000 });
      assert.match((await row.innerText()).replace(/\s+/g, ' '), /node.* 0\/77 /);
      for (const tier of ['client', 'proxy', 'app', 'db', 'disk', 'kernel', 'host', 'weir']) await page.locator(`[data-tier=${tier}]`).waitFor();
      await page.locator('[data-tier=host]').getByText('CPU busy').waitFor();
      assert.equal(await page.locator('.state-error').count(), 0, 'no panel failed');
      await shot(page, 'overview-light');
      await page.getByRole('button', { name: 'dark or light' }).click();
      await shot(page, 'overview-dark');
      await page.locator('[data-tier=kernel] .open-sql').click();
      await page.locator('.result tbody tr').first().waitFor();
    });
  } finally {
    mine.close();
  }
});

test('a_line_written_to_a_tailed_file_appears_live', { skip }, async () => {
  const mark = `journey-${process.pid}-${Date.now()}`;
  const file = join(server.logs, 'app.log');
  await appendFile(file, 'the application has started\n');
  await withPage(server.url, async page => {
    await page.goto(`/#/logs?q=${mark}`);
    await page.getByText('No row matches in this time range.').waitFor();
    await appendFile(file, `checkout of basket ${mark} took too long\n`);
    const row = page.locator('.row', { hasText: `basket ${mark}` });
    await row.waitFor({ timeout: 15_000 });
    assert.equal(await row.count(), 1);
    await row.getByRole('button').first().click();
    await page.getByText('Paused while you read').waitFor();
    await row.locator('.row-detail dd', { hasText: file }).waitFor();
    await page.locator('.facets').getByRole('button', { name: /^log\s*1$/ }).waitFor();
    await shot(page, 'logs');
    await page.getByRole('button', { name: 'Newest rows' }).click();
    await appendFile(file, `and again ${mark}\n`);
    await page.locator('.row', { hasText: `and again ${mark}` }).waitFor();
  });
});

test('a_balancer_in_front_is_no_gain_and_what_can_be_compared_is_offered', { skip }, async () => {
  const line = (path, address, seconds) => JSON.stringify({
    time_iso8601: new Date().toISOString(), remote_addr: address, request: `GET ${path} HTTP/1.1`, status: '200',
      request_time: String(seconds),
    upstream_addr: '127.0.0.1:9001', upstream_status: '200', upstream_connect_time: '0.001', upstream_header_time: '0.020',
      upstream_response_time: '0.020',
  });
  const lines = Array.from({ length: 60 }, (_, i) => [line('/before', `10.1.0.${i}`, 0.2), line('/after', '10.9.9.9', 0.03)]).flat();
  await appendFile(join(server.logs, 'nginx.log'), `${lines.join('\n')}\n`);
  await withPage(server.url, async page => {
    await page.goto('/#/compare');
    await page.getByLabel('A', { exact: true }).fill("url_path = '/before'");
    await page.getByLabel('B', { exact: true }).fill("url_path = '/after'");
    const refused = page.getByRole('region', { name: 'not compared' });
    for (let tries = 0; tries < 60 && !(await refused.getByText('answering 60 peers').count()); tries += 1) {
      await page.getByLabel('B', { exact: true }).press('Enter'); // until all lines are read
      await page.waitForTimeout(500);
    }
    await refused.getByText('something was put in front').waitFor();
    await page.getByRole('region', { name: 'offered' }).getByText('upstream_header_seconds').first().waitFor();
    await shot(page, 'compare');
    await page.getByRole('button', { name: 'Compare upstream_header_seconds' }).click();
    await page.getByRole('heading', { name: 'Measured at the same point' }).waitFor();
    await page.getByLabel('A', { exact: true }).fill("url_path = '/nowhere'");
    await page.getByLabel('A', { exact: true }).press('Enter');
    await page.getByRole('alert').getByText('A has no request').waitFor();
  }, { allows: /status of 400/ });
});

test('a_query_gives_a_table_a_chart_and_a_file', { skip }, async () => {
  await withPage(server.url, async page => {
    await page.goto('/#/sql');
    await page.locator('.schema summary', { hasText: 'cpu_stat' }).click();
    await page.locator('.schema').getByText('Time that the hypervisor gave to other guests').or(page.locator('.schema button[title="Time that the hypervisor gave to other guests."]')).first().waitFor();
    const editor = page.getByLabel('SQL query');
    await editor.fill("select ts, processes_running, idle_seconds_total from cpu_stat where cpu = 'all' order by ts desc limit 50");
    await editor.press('Control+Enter');
    await page.locator('.result tbody tr').nth(1).waitFor();
    assert.deepEqual(await page.locator('.result th').allInnerTexts(), ['ts', 'processes_running', 'idle_seconds_total']);
    await page.getByRole('button', { name: 'Chart' }).click();
    await page.locator('.result .uplot canvas').waitFor();
    assert.ok(page.url().includes('chart=1'));
    await shot(page, 'sql');
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'CSV' }).click()]);
    assert.match(await readFile(await file.path(), 'utf8'), /^ts,processes_running,idle_seconds_total\r?\n2/);
    await editor.fill("explain select count(*) from cpu_stat where cpu = 'all'");
    await editor.press('Control+Enter');
    await page.locator('.plan dt', { hasText: 'reads' }).waitFor();
    assert.match(await page.locator('.plan pre').nth(1).innerText(), /AggregateExec.*\n +/);
    assert.match(await page.locator('.plan pre').last().innerText(), /^fast: at most \d+ files?, /);
    await editor.fill('select nosuch from cpu_stat');
    await editor.press('Control+Enter');
    await page.getByRole('alert').getByText('nosuch').first().waitFor();
    await page.reload();
    await page.getByRole('alert').getByText('nosuch').first().waitFor(); // the query is in the address
  }, { allows: /status of 400/ });
});

test('a_stalled_listener_becomes_a_finding_with_evidence_and_fix', { skip }, async () => {
  const stalled = await stalledListener();
  try {
    await withPage(server.url, async page => {
      await page.goto('/#/findings');
      const row = page.locator('.finding-row.is-firing', { hasText: String(stalled.port) }).first();
      await row.waitFor({ timeout: 45_000 });
      await row.getByRole('link').click();
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.locator('[data-evidence]').getByText(String(stalled.port)).first().waitFor();
      const fix = await page.locator('[data-fix]').innerText();
      assert.ok(fix.trim().length > 20, 'the fix says something');
      await page.locator('.fix').getByRole('button', { name: 'Copy' }).click();
      await page.getByText('Copied').waitFor();
      const copied = await page.evaluate(() => navigator.clipboard.readText());
      assert.equal(copied.replaceAll('`', '').trim(), fix.trim());
      await page.locator('.chart canvas').first().waitFor();
      // The way of a request, with the root where it is, and all tiers under one cursor.
      await page.locator('[data-path] li.is-root', { hasText: /tcp\.(listen_overflow|accept_queue_high)/ }).waitFor();
      const charts = page.locator('[data-all-tiers] .u-over');
      await charts.nth(1).waitFor();
      await page.mouse.move(1, 1);
      await charts.nth(0).scrollIntoViewIfNeeded();
      const isOff = n => page.locator('[data-all-tiers] .u-cursor-x').nth(n).evaluate(e => e.classList.contains('u-off'));
      assert.equal(await isOff(1), true, 'no cursor before the mouse is over a chart');
      await charts.nth(0).hover();
      await page.locator('[data-all-tiers] .u-cursor-x:not(.u-off)').nth(1).waitFor({ state: 'attached' });
      // Fresh figures go into the chart that is there, so that cursor and zoom stay.
      await charts.evaluateAll(all => all.forEach(e => { e.dataset.isOld = ''; }));
      await page.waitForResponse(r => r.url().includes('/api/sql') && r.request().postData()?.includes('pressure'));
      await page.waitForTimeout(500);
      assert.notEqual(await page.locator('[data-all-tiers] .u-over[data-is-old]').count(),
        0, 'charts whose series stay are not drawn anew');
      await shot(page, 'finding');
      await page.locator('[data-evidence] .open-sql').click();
      await page.locator('.result h2').waitFor();
      await page.goto('/#/overview');
      await page.locator('.verdict a').first().waitFor();
      await shot(page, 'overview-finding');
      await page.locator('.top-right .host').click();
      await page.locator('[data-host]').getByText('kernel version').waitFor();
      await page.getByRole('region', { name: 'findings of this host' }).getByText(String(stalled.port)).first().waitFor();
      await page.getByText('Non-default settings').waitFor();
      await page.locator('[data-host] .details .chart canvas').first().waitFor();
      assert.equal(await page.locator('.state-error').count(), 0, 'no panel failed');
      await shot(page, 'host');
    });
  } finally {
    await stalled.stop();
  }
});

test('lines_are_parsed_with_a_pattern_that_is_mended_on_the_page', { skip }, async () => {
  await withPage(server.url, async page => {
    await page.goto('/#/parse');
    await page.getByLabel('lines', { exact: true }).fill('10.0.0.1 GET /a 200\n10.0.0.2 POST /b 404');
    const pattern = page.getByLabel('pattern or pipeline');
    await pattern.fill('%{IP:client_address} %{INT:verb} %{NOTSPACE:path}');
    await page.getByRole('button', { name: 'Parse' }).click();
    const first = page.locator('.parse-line').first();
    await first.getByText('unparsed').or(first.getByText('reject')).first().waitFor();
    await first.getByText('expected at byte 9').first().waitFor();
    await pattern.fill('%{IP:client_address} %{WORD:verb} %{NOTSPACE:path} %{INT:status}');
    await pattern.press('Control+Enter');
    await first.locator('dd', { hasText: '10.0.0.1' }).first().waitFor();
    await page.locator('.parse-line h2', { hasText: 'request' }).first().waitFor();
    assert.equal(await page.locator('.parse-line').count(), 2);
    await shot(page, 'parse');
    await pattern.fill('%{IPP:x}');
    await pattern.press('Control+Enter');
    await page.getByText('did you mean').waitFor();
  }, { allows: /status of 400/ });
});
