// Incidents and on call: what the page shows of them, and what its buttons change; against a fixture, and against a real weir.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { start } from './dev_server.mjs';
import { noWeir, ownWeir, stalledListener } from './fixtures.mjs';
import { HOSTILE, incidents } from './incident_fixture.mjs';

const skip = cannotRun();
const skipWeir = skip || noWeir() || (process.env.WEIR_BIN ? false : 'a weir with a receiver of its own: set WEIR_BIN');
const PATIENT = { timeout: 30_000 };
const words = async locator => (await locator.innerText()).replace(/\s+/g, ' ');

/** A journey on the fixture; `sent` are the changes that the page asked for. @param {(page: import('playwright-core').Page, sent: any[]) => Promise<void>} journey @param {Parameters<typeof withPage>[2]} [options] */
async function withIncidents(journey, options) {
  const { routes, sent } = incidents();
  const server = await start({ routes });
  try {
    await withPage(server.url, page => journey(page, sent), options);
  } finally {
    await server.close();
  }
}

test('open_incidents_come_first_and_rows_are_reached_by_keyboard', { skip }, async () => {
  await withIncidents(async page => {
    await page.goto('/#/incidents?show=all');
    const rows = page.locator('.incident-row');
    await rows.nth(2).waitFor();
    assert.deepEqual(await rows.evaluateAll(all => all.map(row => row.dataset.incident)), ['7kq2m9', 'm4x8pz', 'c0ffee']);
    assert.match(await words(rows.nth(0)), /page .* open 4 2 /);
    assert.match(await words(rows.nth(1)), /mail .* acknowledged 1 1 /);
    await shot(page, 'incidents');
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { level: 1, name: /refuses connections/ }).waitFor();
    const findings = page.getByRole('region', { name: 'Findings' });
    assert.equal(await findings.getByRole('link').first().getAttribute('href'), '#/findings/f1');
    const notices = page.getByRole('region', { name: 'Notices' });
    assert.match(await words(notices.locator('[data-notice=n2]')), /chat uncertain may be a repeat page – 2 /);
    assert.match(await words(notices.locator('[data-notice=n3]')), /team-mail failed mail bo 7 .*User unknown/);
    assert.match(await words(page.getByRole('list', { name: 'history' })), /opened mail .*worse: 4 findings on 2 hosts page/);
  });
});

test('text_of_incidents_silences_and_findings_is_never_markup', { skip }, async () => {
  await withIncidents(async page => {
    for (const [view, count] of [['incidents', 2], ['incidents/m4x8pz', 3], ['oncall', 1]]) {
      await page.goto(`/#/${view}`);
      await page.getByText(HOSTILE).filter({ visible: true }).nth(count - 1).waitFor();
      assert.equal(await page.locator('main img, main b:text-is("bold")').count(), 0, view);
    }
    assert.match(await page.title(), /weir$/);
  });
});

test('an_incident_is_acknowledged_silenced_and_resolved', { skip }, async () => {
  await withIncidents(async (page, sent) => {
    await page.goto('/#/incidents/7kq2m9');
    const actions = page.getByRole('group', { name: 'actions' });
    await actions.getByRole('button', { name: 'Acknowledge' }).press('Enter');
    await actions.getByRole('status').getByText('acked by ada').waitFor();
    await page.locator('.finding-head').getByText('acknowledged', { exact: true }).waitFor();
    await actions.getByRole('button', { name: 'Silence' }).click();
    const silence = page.getByRole('dialog', { name: 'Silence app.down' });
    await silence.getByRole('button', { name: 'Silence' }).click();
    assert.equal(await silence.getByLabel('Reason').evaluate(field => field.matches(':invalid')), true, 'a silence needs a reason');
    await silence.getByLabel('Reason').fill('its disk is replaced');
    await silence.getByLabel('For').selectOption('8 hours');
    await page.waitForResponse(response => response.url().endsWith('/api/incidents/7kq2m9'));
    await page.keyboard.press('Escape');
    await page.locator('dialog').waitFor({ state: 'detached' });
    assert.equal(await page.evaluate(() => document.activeElement?.textContent), 'Silence', 'the focus returns to the button');
    assert.equal(sent.length, 1, 'nothing is silenced without a yes');
    await page.keyboard.press('Enter');
    await silence.waitFor();
    await Promise.all([page.keyboard.press('Escape'), page.keyboard.press('Enter')]); // the old one's end does not take the new one away
    await silence.getByLabel('For').selectOption('8 hours');
    await silence.getByLabel('Reason').fill('its disk is replaced');
    await page.waitForResponse(response => response.url().endsWith('/api/incidents/7kq2m9'));
    assert.equal(await silence.getByLabel('For').inputValue(), '8h', 'fresh rows leave the fields alone');
    await silence.getByLabel('Reason').press('Enter');
    await actions.getByRole('status').getByText(/app\.down is silenced until/).waitFor();
    await actions.getByRole('button', { name: 'Resolve' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Resolve' }).click();
    await page.locator('.finding-head').getByText('resolved', { exact: true }).waitFor();
    await actions.waitFor({ state: 'detached' });
    assert.deepEqual(sent, [['/api/incidents/7kq2m9/ack', {}],
      ['/api/silences', { rule: 'app.down', host: 'web3', for: '8h', reason: 'its disk is replaced' }],
      ['/api/incidents/7kq2m9/resolve', {}]]);
  });
});

test('on_call_shows_gaps_ends_a_silence_and_sends_a_test', { skip }, async () => {
  await withIncidents(async (page, sent) => {
    await page.goto('/#/oncall');
    assert.match(await words(page.locator('[data-rota=web]')), /^web ada .*in 11 h .*shift$/);
    assert.match(await words(page.locator('[data-rota=night]')), /^night nobody – gap$/);
    await shot(page, 'oncall');
    await page.getByRole('button', { name: 'End the silence of disk.*' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'End the silence of disk.*' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'End it' }).click();
    await page.getByText('the silence of disk.* is over').waitFor();
    await page.locator('[data-silence=s1]').waitFor({ state: 'detached' });
    const form = page.getByRole('form', { name: 'test a receiver' });
    await form.getByLabel('receiver').fill('pager');
    await form.getByRole('button', { name: 'Send a test' }).click();
    await form.getByRole('alert').getByText('hint: receivers are phones and chat').waitFor();
    await form.getByLabel('receiver').fill('phones');
    await form.getByLabel('receiver').press('Enter');
    await form.getByRole('status').getByText('phones: sent, 202').waitFor();
    assert.equal(await form.getByRole('alert').count(), 0);
    assert.deepEqual(sent, [['/api/silences/s1/end', {}], ['/api/notify/test', { receiver: 'pager' }],
      ['/api/notify/test', { receiver: 'phones' }]]);
  }, { allows: /status of 400/ });
});

test('incidents_fit_a_phone_and_columns_that_it_lacks_are_below_the_title', { skip }, async () => {
  for (const colorScheme of /** @type {('dark' | 'light')[]} */ (['dark', 'light'])) {
    await withIncidents(async page => {
      for (const [view, name] of [['incidents?show=all', 'incidents'], ['incidents/7kq2m9', 'incident'], ['oncall', 'oncall']]) {
        await page.goto(`/#/${view}`);
        await page.locator('main [data-row]').nth(2).waitFor();
        const wide = await page.evaluate(() => [document.documentElement, ...document.querySelectorAll('main .scroll')].map(box =>
          box.scrollWidth - box.clientWidth));
        assert.ok(wide.every(by => by <= 0), `${view} is too wide by ${wide} px`);
        await shot(page, `${name}-390-${colorScheme}`);
      }
      await page.goto('/#/incidents');
      await page.locator('[data-incident="7kq2m9"]').getByText(/^4 findings on 2 hosts, opened/).waitFor();
    }, { viewport: { width: 390, height: 844 }, colorScheme });
  }
});

test('an_unknown_incident_is_named_and_the_last_rows_stay_when_weir_dies', { skip }, async () => {
  const server = await start({ routes: incidents().routes });
  await withPage(server.url, async page => {
    await page.goto('/#/incidents/nosuch');
    await page.getByRole('alert').getByText('cannot show `nosuch`: there is no such incident').waitFor();
    await page.getByRole('link', { name: 'Incidents' }).first().click();
    await page.locator('[data-incident="7kq2m9"]').waitFor();
    await server.close();
    await page.locator('main').getByText(/^from .* ago: weir is not responding/).waitFor();
    await page.locator('[data-incident="7kq2m9"]').waitFor();
  }, { allows: /status of 404|ERR_CONNECTION|ERR_EMPTY_RESPONSE|ERR_SOCKET/ });
});

/** The open incident with a finding about `subject`; other journeys on this host have theirs. @param {string} url @param {string} subject @returns {Promise<string>} */
async function incidentOf(url, subject) {
  const get = async path => (await fetch(`${url}${path}`)).json();
  for (const end = Date.now() + 60_000;;) {
    const open = (await get('/api/incidents')).incidents;
    for (const { incident_id: id } of open) {
      const { findings } = await get(`/api/incidents/${id}`);
      if (findings.some(f => `${f.subject} ${f.summary}`.includes(subject))) return id;
    }
    assert.ok(Date.now() < end, `no incident about ${subject} in ${JSON.stringify(open)}`);
    await new Promise(resolve => setTimeout(resolve, 500));
  }
}

test('a_stalled_listener_is_an_incident_whose_notice_arrives_and_a_person_closes_it', { skip: skipWeir }, async () => {
  const dir = await mkdtemp(join(tmpdir(), 'weir-ui-incidents-'));
  const arrived = [];
  const hook = createServer(async (request, response) => {
    let body = '';
    for await (const part of request) body += part;
    arrived.push(body);
    response.end('ok');
  });
  await new Promise(resolve => hook.listen(0, '127.0.0.1', () => resolve(undefined)));
  const { port } = /** @type {import('node:net').AddressInfo} */ (hook.address());
  await writeFile(join(dir, 'weir.toml'), `[[receivers]]\nname = "hook"\nkind = "webhook"\nurl = "http://127.0.0.1:${port}/"\n
[[people]]\nname = "ada"\npage = ["hook"]\n\n[[rotas]]\nname = "web"\npeople = ["ada"]\nstart = "2026-01-05T09:00"\n`);
  const stalled = await stalledListener();
  const server = await ownWeir(['--config', join(dir, 'weir.toml')]);
  try {
    await withPage(server.url, async page => {
      const id = await incidentOf(server.url, String(stalled.port));
      await page.goto('/#/incidents');
      await page.locator(`[data-incident="${id}"]`).getByRole('link').click();
      await page.getByRole('region', { name: 'Findings' }).getByText(String(stalled.port)).first().waitFor();
      // What is no page is gathered for a minute.
      await page.locator('[data-notice]', { hasText: 'hook' }).filter({ hasText: 'sent' }).first().waitFor({ timeout: 120_000 });
      assert.ok(arrived.some(body => body.includes(id)), `no notice of ${id} in ${arrived}`);
      await page.getByRole('button', { name: 'Acknowledge' }).click();
      await page.locator('.finding-head').getByText('acknowledged', { exact: true }).waitFor(PATIENT);
      await page.getByRole('button', { name: 'Silence' }).click();
      await page.getByRole('dialog').getByLabel('Reason').fill('a journey');
      await page.getByRole('dialog').getByRole('button', { name: 'Silence' }).click();
      await page.getByText(/is silenced until/).waitFor();
      await page.getByRole('button', { name: 'Resolve' }).click();
      await page.getByRole('dialog').getByRole('button', { name: 'Resolve' }).click();
      await page.locator('.finding-head').getByText('resolved', { exact: true }).waitFor(PATIENT);
      await shot(page, 'incident-resolved');
      await page.goto('/#/incidents?show=all');
      await page.locator(`[data-incident="${id}"].is-resolved`).waitFor(PATIENT);
      await page.goto('/#/oncall');
      await page.locator('[data-rota=web]').getByText('ada').waitFor();
      const silence = page.locator('[data-silence]', { hasText: 'a journey' });
      await silence.getByRole('button').click();
      await page.getByRole('dialog').getByRole('button', { name: 'End it' }).click();
      await silence.waitFor({ state: 'detached' });
      await page.getByLabel('receiver', { exact: true }).fill('hook');
      await page.getByRole('button', { name: 'Send a test' }).click();
      await page.getByText(/^hook: sent/).waitFor(PATIENT);
    });
  } finally {
    await stalled.stop();
    await server.stop();
    hook.close();
    hook.closeAllConnections();
    await rm(dir, { recursive: true, force: true });
  }
});
