// SLOs: what the page shows of budgets and burn rates in each state; against a fixture, and a weir with one SLO.
import assert from 'node:assert/strict';
import { writeFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { start } from './dev_server.mjs';
import { noWeir, ownWeir } from './fixtures.mjs';
import { HOSTILE } from './incident_fixture.mjs';

const skip = cannotRun();
const words = async locator => (await locator.innerText()).replace(/\s+/g, ' ');
const ago = seconds => new Date(Date.now() - seconds * 1000).toISOString();
const WINDOWS = [['5 min', 300], ['30 min', 1800], ['1 h', 3600], ['6 h', 21_600], ['3 d', 259_200]];
const burn = (rates, total = 10_000) => WINDOWS.map(([window, seconds], i) => ({ window, seconds, total, failed: Math.round(total * rates[i] / 1000),
  burn: rates[i], covered_ratio: 1, low: rates[i] * 0.9, high: rates[i] * 1.1 }));

const SLO = { name: 'shop', kind: 'availability', definition: 'availability, tier proxy, site shop.example.org', objective_percent: 99.9,
  window_days: 30, owner: 'rota:web', state: 'ok', counted_until: ago(40), total: 10_000_000, failed: 2860, covered_ratio: 1,
  budget_left_ratio: 0.714, burn: burn([0.2, 0.3, 0.3, 0.2, 0.3]), certainty: '', findings: [] };
const FINDING = { finding_id: 'f1', state: 'firing', class: 'page', summary: HOSTILE, started_ts: ago(600), cause_finding_id: null, cause_rule: null };

/** One SLO in each state: healthy, fast, slow and explained, not counted, stale. */
const fixture = () => [SLO,
  { ...SLO, name: 'checkout', state: 'burning_fast', budget_left_ratio: -0.25, failed: 12_500, burn: burn([50, 22, 18, 4, 0.9]), findings: [FINDING] },
  { ...SLO, name: HOSTILE, kind: 'latency', definition: 'latency below 0.3 s, tier proxy, path /api/*', objective_percent: 99, state: 'burning_slowly',
    budget_left_ratio: 0.04, burn: burn([1.2, 1.4, 1.1, 1.3, 1.2]), owner: null,
    findings: [{ ...FINDING, finding_id: 'f2', class: 'note', cause_finding_id: 'f3', cause_rule: 'app.down' }] },
  { ...SLO, name: 'login', kind: 'checks', definition: 'checks, login*', objective_percent: 99.95, window_days: 28, state: 'not_counted', counted_until: null,
    total: 0, failed: 0, covered_ratio: 0, budget_left_ratio: null, burn: burn([0, 0, 0, 0, 0], 0), certainty: 'nothing was counted yet' },
  { ...SLO, name: 'batch', state: 'ok', counted_until: ago(3600), total: 20, failed: 1, burn: burn([0, 0, 50, 50, 50], 20)
    .map(w => ({ ...w, low: w.burn * 0.2, high: w.burn * 5 })), certainty: 'only 20 requests' }];

async function withSlos(slos, journey, options) {
  const server = await start({ routes: (method, path) => (path === '/api/slos' ? slos(method) : undefined) });
  try {
    await withPage(server.url, page => journey(page), options);
  } finally {
    await server.close();
  }
}

test('each_state_of_an_slo_has_a_word_a_budget_and_its_rates', { skip }, async () => {
  await withSlos(() => [200, { slos: fixture() }], async page => {
    // Keys count once the page has shown what the API answered.
    await page.getByText('All clear.').waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press('b');
    const row = name => page.locator(`[data-slo=${name}]`);
    assert.match(await words(row('shop')), /^ok shop 99\.9 % over 30 d, availability, tier proxy, site shop\.example\.org rota:web 71\.4 % 2 860 of 10 M requests failed 5 min 0\.2× 30 min 0\.3×/);
    assert.match(await words(row('checkout')), /^burning fast checkout .* finding: page for 10 min.* none 12 500 of 10 M requests failed, 1\.3× the budget 5 min 50\.0×/);
    assert.match(await words(row('login')), /^not counted login 99\.95 % over 28 d, checks, login\* rota:web – nothing was counted yet – –$/);
    assert.match(await words(row('batch')), /^stale was ok batch .* only 20 requests 5 min 0\.0× .*50\.0× 10\.0× to 250× /);
    assert.deepEqual(await row('checkout').locator('.is-high dt').allInnerTexts(), ['5 min', '30 min', '1 h']);
    const names = await page.locator('[data-slo]').evaluateAll(rows => rows.map(r => r.dataset.slo));
    assert.deepEqual(names, ['checkout', HOSTILE, 'batch', 'login', 'shop'], 'worst first');
    const slow = page.locator('[data-slo]').nth(1);
    assert.match(await words(slow), /finding: note for 10 min.*, caused by app\.down/);
    assert.equal(await slow.getByRole('link', { name: 'app.down' }).getAttribute('href'), '#/findings/f3');
    assert.equal(await row('checkout').getByRole('link').getAttribute('href'), '#/findings/f1');
    await shot(page, 'slos');
  });
});

// slok/sloth#517: -4.69e-12 % of the budget; slok/sloth#196: below zero, and green while it is empty; slok/sloth#231: NaN without requests.
test('budget_that_is_just_spent_overspent_or_untouched_is_a_plain_figure', { skip }, async () => {
  const slos = [['just', -4.69e-14, 1000, 1], ['none', -3.9, 1000, 5], ['whole', 1, 0, 0], ['drop', 2e-9, 1000, 1]].map(([name, left, total, failed]) => (
    { ...SLO, name, budget_left_ratio: left, total, failed, certainty: total ? '' : 'no requests' }));
  await withSlos(() => [200, { slos }], async page => {
    await page.goto('/#/slos');
    const budget = name => words(page.locator(`[data-slo=${name}] .slo-budget`));
    assert.equal(await budget('just'), '0 % 1 of 1 000 requests failed');
    assert.equal(await budget('none'), 'none 5 of 1 000 requests failed, 4.9× the budget');
    assert.equal(await budget('whole'), '100 % 0 of 0 requests failed no requests');
    assert.equal(await budget('drop'), '0 % 1 of 1 000 requests failed');
    const bars = await page.locator('meter').evaluateAll(all => all.map(bar => bar.value));
    assert.ok(bars.every(value => value >= 0 && value <= 1), String(bars));
  });
});

test('no_slo_an_error_and_old_figures_are_told_apart', { skip }, async () => {
  let answer = [200, { slos: [] }];
  await withSlos(() => answer, async page => {
    await page.goto('/#/slos');
    await page.getByText('No SLO is configured.').waitFor();
    await shot(page, 'slos-empty');
    answer = [503, { error: 'too many queries run', hint: 'try again in a second' }];
    await page.reload();
    await page.getByRole('alert').getByText('too many queries run').waitFor();
    await shot(page, 'slos-error');
    answer = [200, { slos: fixture() }];
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.locator('[data-slo=shop]').waitFor();
    answer = [503, { error: 'too many queries run' }];
    await page.locator('.old').getByText(/from .*: too many queries run/).waitFor();
    assert.equal(await page.locator('.is-old [data-slo=shop]').count(), 1, 'the last figures stay, marked as old');
  }, { allows: /503/ });
});

for (const [width, colorScheme] of [[390, 'dark'], [1280, 'light'], [1440, 'dark']]) {
  test(`slos_fit_${width}_pixels_and_names_are_text`, { skip }, async () => {
    await withSlos(() => [200, { slos: fixture() }], async page => {
      await page.goto('/#/slos');
      await page.getByText(HOSTILE).filter({ visible: true }).first().waitFor();
      assert.equal(await page.locator('main img, main b:text-is("bold")').count(), 0);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wide <= 0, `too wide by ${wide} px`);
      await shot(page, `slos-${width}-${colorScheme}`);
    }, { viewport: { width, height: 844 }, colorScheme });
  });
}

test('slo_of_a_real_weir_waits_for_its_first_count', { skip: skip || noWeir() || (!process.env.WEIR_BIN && 'set WEIR_BIN') }, async () => {
  const dir = await mkdtemp(join(tmpdir(), 'weir-slo-'));
  await writeFile(join(dir, 'weir.toml'), '[[slos]]\nname = "shop"\nobjective = 99.95\nsite = "shop.example.org"\n');
  const weir = await ownWeir(['--config', join(dir, 'weir.toml')]);
  try {
    await withPage(weir.url, async page => {
      await page.goto('/#/slos');
      assert.match(await words(page.locator('[data-slo=shop]')), /shop 99\.95 % over 30 d, availability, tier proxy, site shop\.example\.org/);
    });
  } finally {
    await weir.stop();
    await rm(dir, { recursive: true, force: true });
  }
});
