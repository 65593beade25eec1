// The states that a healthy weir does not show: empty, error, silent host, full disk, and weir gone.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { start } from './dev_server.mjs';

const skip = cannotRun();
/** @type {Awaited<ReturnType<typeof start>>} */
let server;
before(async () => { server = await start(); });
after(() => server.close());

const textOf = async (page, selector) => (await page.locator(selector).innerText()).replace(/\s+/g, ' ');

test('an_empty_weir_says_what_to_do_on_every_view', { skip }, async () => {
  server.state = 'empty';
  await withPage(server.url, async page => {
    await page.getByText('All clear.').waitFor();
    await page.getByText('No log files found').waitFor();
    await page.locator('[data-tier=db]').getByText('No database listens on this host.').waitFor();
    await shot(page, 'empty-overview');
    await page.goto('/#/findings');
    await page.getByText('No open findings.').waitFor();
    await page.goto('/#/findings?show=rules');
    await page.getByText('No rules loaded.').waitFor();
    await page.goto('/#/incidents');
    await page.getByText('No open incidents.').waitFor();
    await page.getByText('weir has sent no notice yet.').getByText('[[receivers]]').waitFor();
    await page.goto('/#/incidents?show=all');
    await page.getByText('No incidents yet.').waitFor();
    await page.goto('/#/oncall');
    for (const text of ['No rota is configured.', 'No silences.', 'weir has sent no notice yet.']) await page.getByText(text).waitFor();
    await shot(page, 'empty-oncall');
    await page.goto('/#/checks');
    await page.getByText('No check ran yet.').waitFor();
    await page.goto('/#/actions');
    for (const text of ['No repair waits for an answer.', 'No repair was proposed yet.']) await page.getByText(text).waitFor();
    await page.goto('/#/logs?q=nothing');
    await page.getByText('No row matches in this time range.').waitFor();
    await page.getByRole('button', { name: 'Clear the search' }).click();
    await page.getByText('No row was read in this time range.').waitFor();
    await page.goto('/#/wire');
    await page.getByText('No tap is active.').waitFor();
    await shot(page, 'empty-wire');
    await page.goto('/#/sql?q=select%201');
    await page.getByText('The query returned no rows.').waitFor();
  });
});

test('a_failing_query_is_told_with_its_hint_and_can_be_tried_again', { skip }, async () => {
  server.state = 'error';
  await withPage(server.url, async page => {
    await page.goto('/#/sql?q=select%20nosuch%20from%20request');
    await page.getByRole('alert').getByText('no column `nosuch` in `request`').waitFor();
    await page.getByText('hint: the columns are under SQL, Tables').waitFor();
    await page.goto('/#/wire');
    await page.getByRole('button', { name: 'Try again' }).waitFor();
    await page.goto('/#/overview');
    await page.locator('[data-tier=app]').getByRole('button', { name: 'Try again' }).waitFor();
    await shot(page, 'error-overview');
    server.state = 'empty';
    await page.locator('[data-tier=app]').getByRole('button', { name: 'Try again' }).click();
    await page.locator('[data-tier=app]').getByText('No proxied requests').waitFor();
  }, { allows: /status of 400/ });
});

test('a_silent_host_and_a_full_disk_are_named', { skip }, async () => {
  server.state = 'silent';
  await withPage(server.url, page => page.getByText('fixture is silent:').waitFor());
  server.state = 'full';
  await withPage(server.url, page => page.getByText('no room is left in /nowhere').waitFor());
});

test('when_weir_dies_the_page_says_how_old_it_is_and_recovers_by_itself', { skip }, async () => {
  const mortal = await start();
  const port = Number(new URL(mortal.url).port);
  await withPage(mortal.url, async page => {
    await page.getByText('All clear.').waitFor();
    await mortal.close();
    const banner = page.locator('.banner-lost');
    await banner.getByText('weir is not responding.').waitFor();
    assert.match(await textOf(page, '.banner-lost'), /What you see is from \d\d:\d\d:\d\d UTC, (now|.* ago)\./);
    await page.getByText('at the last response').waitFor(); // the last answer stays
    await page.getByText(/^from .* ago: weir is not responding/).first().waitFor(); // and each panel says that it is old
    await shot(page, 'stale-overview');
    await banner.getByRole('button', { name: 'Try now' }).click();
    const risen = await start({ port });
    await banner.waitFor({ state: 'detached', timeout: 20_000 });
    await page.getByText(/^from .* ago: weir is not responding/).first().waitFor({ state: 'detached' });
    await risen.close();
  }, { allows: /ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET/ });
});

test('the_page_is_usable_by_keyboard', { skip }, async () => {
  server.state = 'empty';
  await withPage(server.url, async page => {
    await page.getByText('All clear.').waitFor();
    for (const [key, view] of [['f', 'findings'], ['i', 'incidents'], ['n', 'oncall'], ['h', 'checks'], ['a', 'actions'], ['l', 'logs'], ['e', 'edge'], ['w', 'wire'], ['s', 'sql'],
      ['c', 'compare'], ['o', 'overview']]) {
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForFunction(name => location.hash.startsWith(`#/${name}`), view);
    }
    // The address changes before the page hears of it, and the card closes when the page goes elsewhere.
    await page.getByText('All clear.').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('heading', { name: 'Keyboard and search' }).waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('heading', { name: 'Keyboard and search' }).waitFor({ state: 'detached' });
    await page.keyboard.press('/');
    await page.waitForFunction(() => document.activeElement?.matches('input[name=q]'));
    await page.keyboard.type('status:5xx');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => location.hash.includes('q=status'));
  });
});

test('nothing_overflows_sideways_from_a_phone_to_a_wide_screen', { skip }, async () => {
  server.state = 'empty';
  for (const width of [360, 1024, 1920]) {
    await withPage(server.url, async page => {
      for (const view of ['overview', 'findings', 'incidents', 'oncall', 'checks', 'actions', 'logs', 'edge', 'wire', 'sql', 'compare']) {
        await page.goto(`/#/${view}`);
        await page.locator('main .panel').first().waitFor();
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${view} at ${width} px is ${wide} px too wide`);
      }
    }, { viewport: { width, height: 800 } });
  }
});
