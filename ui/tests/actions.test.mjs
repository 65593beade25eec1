// Actions and checks: what the page shows of repairs and results, and what its buttons send; against a fixture.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { start } from './dev_server.mjs';
import { HOSTILE } from './incident_fixture.mjs';

const skip = cannotRun();
const words = async locator => (await locator.innerText()).replace(/\s+/g, ' ');
const ago = seconds => new Date(Date.now() - seconds * 1000).toISOString();

const RUN = { run_id: 'r1', state: 'asked', step: 'ask', rule: 'app.down', action: 'restart-unit', params: { unit: 'shop.service' }, host: 'web3',
  role: 'web', subject: '10.0.0.7:8080', finding_id: 'f1', incident_id: '7kq2m9', refusal: null, reason: '', approved_by: null, opened_ts: ago(60),
  changed_ts: ago(60), asked_until_ts: ago(-840), order_id: null, ordered_ts: null, exit_status: null, output_tail: null, before: null, after: null, undo: null };
const RESULT = ['ts', 'host', 'kind', 'check', 'target', 'service', 'status', 'scope', 'observed_value', 'observed_unit', 'threshold', 'output',
  'duration_seconds', 'zone', 'expires_ts'];

/** Repairs in memory: one that waits, one that failed, one that was verified. */
function repairs() {
  const state = { enabled: true, stopped: null, public_key: '', heals: [],
    ladders: [{ rule: 'app.down', action: 'restart-unit', role: 'web', limit: 'ask', verified: 3, reason: 'a verification failed' }],
    runs: [{ ...RUN }, { ...RUN, run_id: 'r2', state: 'failed', host: 'web4', reason: HOSTILE, output_tail: HOSTILE, exit_status: 1, approved_by: 'bo', asked_until_ts: null },
      { ...RUN, run_id: 'r3', state: 'refused', host: 'web5', reason: '3 of 5 hosts of web have a finding of this rule', asked_until_ts: null }] };
  const sent = [];
  const routes = (method, path, body) => {
    if (path === '/api/actions') return [200, state];
    if (path === '/api/sql' && body.sql.includes('check_result')) {
      const columns = RESULT.map(name => ({ name, kind: 'text', unit: '' }));
      const rows = [[ago(5), 'web3', 'digest', 'db', '127.0.0.1:8080', 'shop', 'critical', 'self', 3, '/s', '50', HOSTILE, null, 'a', ago(-60)],
        [ago(500), 'web4', 'plugin', 'disk', '', null, 'ok', null, 12, '%', null, 'DISK OK', 0.2, null, ago(200)]];
      return [200, { columns, rows, row_count: 2, is_truncated: false, elapsed_seconds: 0.001 }];
    }
    if (method !== 'POST' || path === '/api/sql') return undefined;
    sent.push([path, body]);
    if (path.endsWith('/stop')) state.stopped = { ...body, at_ts: ago(0) };
    else if (path.endsWith('/start')) state.stopped = null;
    else Object.assign(state.runs[0], { state: 'approved', approved_by: body.by });
    return [200, { by: body.by, runs: [] }];
  };
  return { routes, sent };
}

async function withRepairs(journey, options) {
  const { routes, sent } = repairs();
  const server = await start({ routes });
  try {
    await withPage(server.url, page => journey(page, sent), options);
  } finally {
    await server.close();
  }
}

test('a_repair_is_approved_by_a_person_with_a_name', { skip }, async () => {
  await withRepairs(async (page, sent) => {
    await page.goto('/#/actions');
    const waiting = page.getByRole('region', { name: 'Waiting for an answer' });
    assert.match(await words(waiting.locator('[data-run=r1]')), /asked 1[34] min.* left restart-unit unit=shop\.service app\.down, 7kq2m9 web3 web /);
    await shot(page, 'actions');
    await waiting.getByRole('button', { name: 'Approve' }).click();
    const dialog = page.getByRole('dialog', { name: 'Approve this repair?' });
    await dialog.getByRole('button', { name: 'Approve' }).click();
    assert.equal(await dialog.getByLabel('Your name').evaluate(field => field.matches(':invalid')), true, 'an answer needs a name');
    await dialog.getByLabel('Your name').fill('ada');
    await dialog.getByRole('button', { name: 'Approve' }).click();
    await waiting.getByText('No repair waits for an answer.').waitFor();
    assert.match(await words(page.locator('[data-run=r1]')), /approved .* approved by ada/);
    assert.deepEqual(sent, [['/api/actions/r1/approve', { by: 'ada' }]]);
  });
});

test('repairs_are_stopped_and_started_again', { skip }, async () => {
  await withRepairs(async (page, sent) => {
    await page.goto('/#/actions');
    await page.getByRole('button', { name: 'Stop all repairs' }).click();
    const stop = page.getByRole('dialog', { name: 'Stop all repairs?' });
    await stop.getByLabel('Reason').fill('game day');
    await stop.getByLabel('Your name').fill('ada');
    await stop.getByRole('button', { name: 'Stop' }).click();
    await page.getByText(/Repairs are stopped by ada, .*: game day/).waitFor();
    await page.getByRole('button', { name: 'Start repairs again' }).click();
    const startAgain = page.getByRole('dialog', { name: 'Start repairs again?' });
    assert.equal(await startAgain.getByLabel('Your name').inputValue(), 'ada', 'the name is kept');
    await startAgain.getByRole('button', { name: 'Start' }).click();
    await page.getByRole('button', { name: 'Stop all repairs' }).waitFor();
    assert.deepEqual(sent.map(([path]) => path), ['/api/heal/stop', '/api/heal/start']);
  });
});

for (const width of [390, 1280]) {
  test(`results_and_runs_are_text_and_fit_${width}_pixels`, { skip }, async () => {
    await withRepairs(async page => {
      for (const view of ['actions', 'checks']) {
        await page.goto(`/#/${view}`);
        await page.locator('main [data-row]').nth(1).waitFor();
        await page.getByText(HOSTILE).filter({ visible: true }).first().waitFor();
        assert.equal(await page.locator('main img, main b:text-is("bold")').count(), 0, view);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(wide <= 0, `${view} is too wide by ${wide} px`);
        await shot(page, `${view}-${width}`);
      }
      assert.match(await words(page.locator('[data-check=disk]')), /stale was ok disk plugin/);
      assert.match(await words(page.locator('[data-check=db]')), /critical db application/);
    }, { viewport: { width, height: 844 } });
  });
}
