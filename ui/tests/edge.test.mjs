// The Edge view: backends with share and health, a drain that is confirmed, visitors, and one request from the browser down.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { appendFile, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { CHROMIUM, FLAGS, cannotRun, shot, withPage } from './browser.mjs';
import { noWeir, ownWeir, weirEdge } from './fixtures.mjs';
import { parts } from '../views/edge_request.js';

const skip = cannotRun() || (process.env.WEIR_BIN ? false : noWeir() || 'no weir to start: set WEIR_BIN');
const VISITOR = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36';
const LOGIN = { username: 'me', password: 'a-login-of-enough-letters' };
const PATIENT = { timeout: 30_000 };
/** @type {Awaited<ReturnType<typeof weirEdge>>} */
let edge;
/** @type {import('node:http').Server[]} */
let shops = [];
let dir = '';
const HAPROXY = '/usr/sbin/haproxy';
/** @type {import('node:child_process').ChildProcess | undefined} */
let haproxy;
const portOf = server => /** @type {import('node:net').AddressInfo} */ (server.address()).port;
before(async () => {
  if (skip) return;
  dir = await mkdtemp(join(tmpdir(), 'weir-ui-edge-login-'));
  await writeFile(join(dir, 'token'), `${LOGIN.password}\n`, { mode: 0o600 });
  shops = [1, 2].map(() => createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    setTimeout(() => response.end('<!doctype html><title>shop</title><script src="/ping/weir.js" data-site="shop.example" defer></script>'), 40);
  }));
  await Promise.all(shops.map(shop => new Promise(resolve => shop.listen(0, '127.0.0.1', () => resolve(undefined)))));
  const backends = shops.flatMap(shop => ['--backend', `127.0.0.1:${portOf(shop)}`]);
  const socket = join(dir, 'admin.sock');
  if (existsSync(HAPROXY)) {
    await writeFile(join(dir, 'haproxy.cfg'), `global\n  stats socket ${socket} level admin\ndefaults\n  mode http\n  timeout client 5s\n  timeout server 5s\n  timeout connect 5s\nbackend app\n  server one 127.0.0.1:9 weight 10\n`);
    haproxy = spawn(HAPROXY, ['-db', '-f', join(dir, 'haproxy.cfg')], { stdio: 'ignore' });
  }
  edge = await weirEdge([...backends, '--beacon', '/ping'], { WEIR_API_TOKEN_FILE: join(dir, 'token'), WEIR_HAPROXY_SOCKETS: socket,
    WEIR_EDGE_ACME_NAMES: 'shop.example', WEIR_EDGE_ACME_DIRECTORY: 'https://127.0.0.1:9/directory' });
});
after(async () => {
  haproxy?.kill('SIGKILL');
  await edge?.stop();
  shops.forEach(shop => { shop.close(); shop.closeAllConnections(); });
  if (dir) await rm(dir, { recursive: true, force: true });
});

/** A visitor whose page stays open, moved by hand, while `journey` looks. @param {string} path @param {() => Promise<void>} journey */
async function whileVisited(path, journey) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    const page = await (await browser.newContext({ userAgent: VISITOR, baseURL: edge.url })).newPage();
    const sent = page.waitForResponse(response => response.url().endsWith('/ping') && response.ok());
    await page.goto(path);
    await sent;
    await journey();
  } finally {
    await browser.close();
  }
}

test('backends_show_their_share_and_a_confirmed_drain_takes_one_out', { skip }, async () => {
  for (let i = 0; i < 40; i += 1) await (await fetch(`${edge.url}/load`)).text();
  await withPage(edge.page, async page => {
    await page.goto('/#/edge');
    const name = `127.0.0.1:${portOf(shops[0])}`;
    const row = page.locator(`tr[data-backend="${name}"]`);
    await row.getByText('up', { exact: true }).waitFor(PATIENT);
    assert.equal(await page.locator('tr[data-backend]').count(), 2);
    await page.locator('tr[data-backend] .edge-health i').first().waitFor(PATIENT);
    await row.getByRole('button', { name: 'Drain' }).click();
    await page.getByText(`Drain ${name}?`).waitFor();
    await shot(page, 'edge-confirm');
    await page.getByRole('button', { name: 'No' }).click();
    assert.equal(await row.getByRole('spinbutton').inputValue(), '1', 'nothing happens without a yes');
    await row.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('button', { name: 'Yes' }).click();
    await row.getByText('draining').waitFor(PATIENT);
    const of = async () => (await (await fetch(`${edge.page}/api/edge`,
      { headers: { authorization: `Bearer ${LOGIN.password}` } })).json()).backends.find(b => b.backend === name);
    const before = (await of()).requests_total;
    for (let i = 0; i < 10; i += 1) await (await fetch(`${edge.url}/load`)).text();
    assert.equal((await of()).requests_total, before, 'a drained backend gets nothing');
    await row.getByRole('button', { name: 'Take back' }).click();
    await page.getByRole('button', { name: 'Yes' }).click();
    await row.getByText('up', { exact: true }).waitFor(PATIENT);
    await page.getByRole('button', { name: 'dark or light' }).click();
    await shot(page, 'edge-dark');
  }, { login: LOGIN, allows: /401/ });
});

test('an_haproxy_is_there_beside_and_a_confirmed_drain_reaches_it',
  { skip: skip || (existsSync(HAPROXY) ? false : 'haproxy not found (apt install haproxy)') }, async () => {
  await withPage(edge.page, async page => {
    await page.goto('/#/edge');
    const row = page.locator('tr[data-server="app/one"]');
    await row.getByText('no check').waitFor(PATIENT);
    await row.getByRole('button', { name: 'Drain' }).click();
    await page.getByText('drain app/one?').waitFor();
    await page.getByRole('button', { name: 'No' }).click();
    assert.match(await row.innerText(), /no check/, 'nothing happens without a yes');
    await row.getByRole('button', { name: 'Drain' }).click();
    await page.getByRole('button', { name: 'Yes' }).click();
    await row.getByText('DRAIN', { exact: true }).waitFor(PATIENT);
    await shot(page, 'edge-haproxy');
    await row.getByRole('button', { name: 'Ready' }).click();
    await page.getByRole('button', { name: 'Yes' }).click();
    await row.getByText('no check').waitFor(PATIENT);
  }, { login: LOGIN, allows: /401/ });
});

test('who_visits_is_there_within_seconds_and_his_request_goes_from_the_browser_down', { skip }, async () => {
  await withPage(edge.page, async page => {
    await whileVisited('/basket', async () => {
      await page.goto('/#/edge');
      const visitor = page.locator('.visitors tbody tr', { hasText: '/basket' });
      await visitor.waitFor(PATIENT);
      assert.match((await visitor.innerText()).replace(/\s+/g, ' '), /shop\.example \/basket 1 1/);
      await page.locator('.joined tbody tr', { hasText: '/basket' }).first().click(PATIENT);
      await page.locator('.waterfall-tier[data-tier="edge"]').waitFor(PATIENT);
      assert.deepEqual(await page.locator('.waterfall-tier').evaluateAll(all => all.map(one => one.getAttribute('data-tier'))),
        ['client', 'edge']);
      const text = (await page.locator('.waterfall-tier[data-tier="edge"]').innerText()).replace(/\s+/g, ' ');
      assert.match(text, /first byte of the backend [\d.]+ m?s/);
      await shot(page, 'edge-waterfall');
    });
    await page.locator('.visitors').waitFor({ state: 'detached', ...PATIENT });
    await page.getByText('no beacon in the last 15 s').waitFor(PATIENT);
  }, { login: LOGIN, allows: /401/ });
});

test('overview_shows_the_outermost_tiers_time_and_mixes_no_proxys_into_it', { skip }, async () => {
  const hub = await ownWeir();
  const sender = await weirEdge(['--hub', hub.url, '--backend', `127.0.0.1:${portOf(shops[0])}`], { WEIR_AGENT_DIR: join(dir, 'agent') });
  try {
    // Lines of an nginx behind the edge whose application took 50 s.
    const line = JSON.stringify({ time: new Date().toISOString(), request_method: 'GET', request_uri: '/slow', status: 200,
      request_time: 50, upstream_connect_time: 0, upstream_header_time: 50, upstream_response_time: 50 });
    await appendFile(join(hub.logs, 'nginx.log'), `${line}\n`.repeat(20));
    await withPage(hub.url, async page => {
      await page.goto('/#/overview');
      await page.getByText('last minute, measured at the proxy').waitFor(PATIENT);
      const app = page.locator('.timekeys div', { hasText: 'application' }).locator('dd');
      assert.match(await app.innerText(), /^50\D*s/);
      await (await fetch(`${sender.url}/load`)).text();
      await page.getByText('last minute, measured at the edge').waitFor(PATIENT);
      assert.match(await app.innerText(), /^[\d.]+\s*ms/, 'the edge waited 40 ms; a mean of both would be seconds');
      await shot(page, 'edge-overview');
    });
  } finally {
    await sender.stop();
    await hub.stop();
  }
});

test('the_parts_of_a_tiers_time_are_its_whole_time', () => {
  const row = { tier: 'edge', duration_seconds: 1, request_read_seconds: 0, queue_seconds: 0.1, upstream_connect_seconds: 0.2,
    upstream_header_seconds: 0.5, upstream_response_seconds: 0.6 };
  const seconds = parts(row).map(([name, , s]) => [name, Math.round(s * 1e3)]);
  assert.deepEqual(seconds, [['queue', 100], ['connect', 200], ['app', 300], ['body', 100], ['client', 300]]);
  const bare = { ...row, queue_seconds: null, upstream_connect_seconds: null, upstream_header_seconds: null,
    upstream_response_seconds: null };
  assert.deepEqual(parts(bare).map(([name]) => name), ['client']);
});

test('a_certificate_that_the_authority_does_not_give_is_missing_with_the_reason', { skip }, async () => {
  await withPage(edge.page, async page => {
    await page.goto('/#/edge');
    const row = page.locator('tr', { hasText: 'shop.example' }).filter({ hasText: 'missing' });
    await row.waitFor(PATIENT);
    assert.match(await row.innerText(), /127\.0\.0\.1:9/);
    await row.getByText('next attempt at').waitFor(PATIENT);
    await shot(page, 'edge-certificates');
  }, { login: LOGIN, allows: /401/ });
});
