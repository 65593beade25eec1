// What a person does with rules: read the proposal for a threshold, say yes to it, replay a rule, and judge a finding.
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { noWeir, ownWeir, stalledListener } from './fixtures.mjs';

const skip = cannotRun() || noWeir() || (process.env.WEIR_BIN ? false : 'a weir with rules of its own: set WEIR_BIN');

/** Three days of a proxy's log: in each five minutes 24 to 26 requests; once in three hours the application takes 0.31 s. */
function log() {
  const lines = [];
  for (let slot = 3 * 288 + 12; slot >= 1; slot -= 1) {
    const at = new Date(Date.now() - slot * 300_000).toISOString();
    const took = slot % 36 === 0 ? 0.31 : 0.09;
    const line = JSON.stringify({ time_iso8601: at, remote_addr: '192.0.2.7', request_method: 'GET', request_uri: '/', status: 200,
      request_time: took, upstream_addr: '10.0.0.5:8080', upstream_status: '200', upstream_response_time: String(took),
        upstream_header_time: String(took), upstream_connect_time: '0.001' });
    for (let i = 0; i < 24 + (slot % 3); i += 1) lines.push(line);
  }
  return `${lines.join('\n')}\n`;
}

test('a_threshold_is_proposed_accepted_with_a_second_yes_and_the_rule_replayed', { skip }, async () => {
  const rules = await mkdtemp(join(tmpdir(), 'weir-ui-rules-'));
  const server = await ownWeir(['--rules', rules], { WEIR_COLLECT_SAMPLE_HOST: 'false', WEIR_COLLECT_FIND_LOGS: 'false' });
  try {
    await writeFile(join(server.logs, 'access.log'), log());
    const mined = async () => (await (await fetch(`${server.url}/api/thresholds?rule=app.slow`)).json()).thresholds[0];
    let report = await mined();
    for (const end = Date.now() + 180_000; report.proposed === null || report.known_days < 2.9; report = await mined()) {
      assert.ok(Date.now() < end, `no proposal: ${JSON.stringify(report)}`);
      await new Promise(resolve => setTimeout(resolve, 500));
    }
    await withPage(server.url, async page => {
      await page.goto('/#/findings?show=rules');
      const rule = page.locator('.rules li', { has: page.locator('summary > code', { hasText: /^app\.slow$/ }) });
      await rule.locator('summary').click();
      const threshold = rule.getByLabel('threshold', { exact: true });
      await threshold.locator('[data-proposed]').waitFor();
      await threshold.getByLabel('no longer found').locator('li').first().waitFor();
      await shot(page, 'rules-threshold');
      await threshold.getByRole('button', { name: /^Accept/ }).click();
      await threshold.getByRole('button', { name: 'No' }).click();
      await threshold.getByRole('button', { name: /^Accept/ }).click();
      await threshold.getByRole('button', { name: 'Yes, write it' }).click();
      await threshold.getByText('start weir again to use it').waitFor();
      const copy = await readFile(join(rules, 'app.slow.sql'), 'utf8');
      assert.match(copy, new RegExp(`\\nvalue = ${String(report.proposed).replace('.', '\\.')}\\n`));
      const replay = rule.getByLabel('replay', { exact: true });
      await replay.getByRole('button', { name: '1 hour' }).click();
      await replay.locator('[data-fired]').waitFor({ timeout: 60_000 });
      assert.match(await replay.locator('[data-fired]').innerText(), /would have fired \d+ times since .*: \d+ as page, \d+ as mail, \d+ as note/);
      await shot(page, 'rules-replay');
    });
  } finally {
    await server.stop();
    await rm(rules, { recursive: true, force: true });
  }
});

test('a_finding_is_judged_and_the_newest_judgement_holds', { skip }, async () => {
  const stalled = await stalledListener();
  const server = await ownWeir();
  try {
    await withPage(server.url, async page => {
      await page.goto('/#/findings');
      const row = page.locator('.finding-row.is-firing', { hasText: String(stalled.port) }).first();
      await row.waitFor({ timeout: 45_000 });
      await row.getByRole('link').click();
      const judge = page.getByRole('group', { name: 'Was it real?' });
      await judge.getByRole('button', { name: 'Wrong' }).click();
      await judge.getByText("kept; 0 of the rule's last 1 judged findings were real").waitFor();
      await judge.getByLabel('what was done').fill('restarted the program');
      await judge.getByRole('button', { name: 'Real', exact: true }).click();
      await judge.getByText("kept; 1 of the rule's last 1 judged findings were real").waitFor();
      assert.equal(await judge.getByRole('button', { name: 'Real', exact: true }).getAttribute('aria-pressed'), 'true');
      await page.reload();
      await judge.locator('button[aria-pressed=true]', { hasText: 'Real' }).waitFor();
      const id = page.url().split('/').at(-1);
      const sql = `select verdict, action from judgement where finding_id = '${id}' order by ts`;
      const answer = await (await fetch(`${server.url}/api/sql`,
        { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ sql, limit: 10 }) })).json();
      assert.deepEqual(answer.rows, [['wrong', null], ['real', 'restarted the program']]);
      await page.goto('/#/findings?show=rules');
      await page.locator('.rules li', { hasText: '1 of 1 judged findings were real' }).first().waitFor();
      await shot(page, 'rules-judged');
    });
  } finally {
    await stalled.stop();
    await server.stop();
  }
});
