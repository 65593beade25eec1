// One Chromium for all journeys; each gets a fresh profile and fails on any error in the console or breach of the policy.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { chromium } from 'playwright-core';

export const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
export const CHROMIUM = process.env.WEIR_CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(path => existsSync(path));

/** Why browser tests cannot run, or false; CI (`WEIR_REQUIRE_UI=1`) makes that a failure. */
export function cannotRun() {
  if (CHROMIUM) return false;
  assert.notEqual(process.env.WEIR_REQUIRE_UI, '1', 'chromium is required (apt install chromium)');
  return 'chromium not found (apt install chromium)';
}

/**
 * Runs one journey in a browser of its own.
 * `allows` names console errors that the journey itself causes, such as a refused connection after it stopped the server.
 * @param {string} url @param {(page: import('playwright-core').Page) => Promise<void>} journey
 * @param {{allows?: RegExp, colorScheme?: 'dark' | 'light', login?: {username: string, password: string}, viewport?: {width: number, height: number}}} [options]
 */
export async function withPage(url, journey, { allows, colorScheme = 'light', login, viewport = { width: 1440, height: 900 } } = {}) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  const complaints = [];
  try {
    const context = await browser.newContext({ viewport, colorScheme, httpCredentials: login, baseURL: url,
      permissions: ['clipboard-read', 'clipboard-write'] });
    await context.addInitScript(() => addEventListener('securitypolicyviolation',
      e => { throw new Error(`policy: ${e.violatedDirective} ${e.blockedURI}`); }));
    const page = await context.newPage();
    page.setDefaultTimeout(30_000);
    page.on('console', m => { if (m.type() === 'error' && !allows?.test(m.text())) complaints.push(`console: ${m.text()}`); });
    page.on('pageerror', e => complaints.push(`page: ${e.stack ?? e}`));
    const answer = await page.goto('/');
    const policy = answer?.headers()['content-security-policy'] ?? '';
    assert.match(policy, /default-src 'self'/, 'the page is served with a strict policy');
    assert.doesNotMatch(policy, /unsafe/, 'nothing unsafe in the policy');
    try {
      await journey(page);
    } catch (error) {
      await shot(page, `failed-${Date.now()}`);
      throw error;
    }
    assert.deepEqual(complaints, [], 'no error in the console');
  } finally {
    await browser.close();
  }
}

/** Saves a picture below `WEIR_SHOTS`, when set. @param {import('playwright-core').Page} page @param {string} name */
export async function shot(page, name) {
  const directory = process.env.WEIR_SHOTS;
  if (!directory) return;
  await mkdir(directory, { recursive: true });
  await page.screenshot({ path: `${directory}/${name}.png`, fullPage: true });
}
