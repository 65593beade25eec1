// weir.js in a real browser: a page behind `weir edge` measures its visit; what a cut of the network loses is counted.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { after, before, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { chromium } from 'playwright-core';
import { CHROMIUM, FLAGS, cannotRun } from './browser.mjs';
import { noWeir, weirEdge } from './fixtures.mjs';

const skip = cannotRun() || (process.env.WEIR_BIN ? false : noWeir() || 'no weir to start: set WEIR_BIN');
const VISITOR = 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36';
/** @type {Awaited<ReturnType<typeof weirEdge>>} */
let edge;
/** @type {import('node:http').Server} */
let shop;
before(async () => {
  if (skip) return;
  shop = createServer((request, response) => {
    response.setHeader('content-type', 'text/html');
    setTimeout(() => response.end('<!doctype html><title>shop</title><h1>shop</h1><script src="/ping/weir.js" data-site="shop.example" defer></script>'), 50);
  });
  await new Promise(resolve => shop.listen(0, '127.0.0.1', () => resolve(undefined)));
  edge = await weirEdge(['--backend', `127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (shop.address()).port}`, '--beacon', '/ping']);
});
after(async () => { await edge?.stop(); shop?.close(); shop?.closeAllConnections(); });

/** The rows of a query once `isThere` likes them. @param {string} sql @param {(rows: any[][]) => boolean} isThere */
async function rows(sql, isThere) {
  const end = Date.now() + 20_000;
  for (;;) {
    const answer = await fetch(`${edge.page}/api/sql`, { method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sql }) });
    const body = await answer.json();
    if (answer.ok && isThere(body.rows)) return body.rows;
    assert.ok(Date.now() < end, `${sql} gave ${JSON.stringify(body)}`);
    await new Promise(resolve => setTimeout(resolve, 200));
  }
}

/** A page of the shop; with `isTimed` the journey moves its timers, and it has no navigation timing. @param {string} path @param {boolean} isTimed @param {(page: import('playwright-core').Page, context: import('playwright-core').BrowserContext) => Promise<void>} journey */
async function visit(path, isTimed, journey) {
  const browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  try {
    const context = await browser.newContext({ userAgent: VISITOR, baseURL: edge.url });
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    if (isTimed) await page.clock.install();
    const sent = page.waitForResponse(response => response.url().endsWith('/ping') && response.ok());
    await page.goto(path);
    await sent;
    await journey(page, context);
  } finally {
    await browser.close();
  }
}

test('a_visit_is_client_rows_within_seconds_joined_to_the_edges_row_of_the_page', { skip }, async () => {
  await visit('/basket?from=mail', false, async () => {
    const sql = `select b.kind, b.sequence, b.is_bot, b.is_absurd, b.client_address, c.duration_seconds, e.duration_seconds, e.upstream_address is not null
      from beacon b join request c on c.tier = 'client' and c.request_id = b.request_id
      join request e on e.tier = 'edge' and e.request_id = b.request_id
      where b.site = 'shop.example' and b.page = '/basket' and e.url_path = '/basket'`;
    const [[kind, sequence, isBot, isAbsurd, address, client, edgeSeconds, hasUpstream]] = await rows(sql, found => found.length === 1);
    assert.deepEqual([kind, sequence, isBot, isAbsurd, address, hasUpstream], ['load', 0, false, false, '127.0.0.0', true]);
    // The shop takes 50 ms, which both see; when the edge has done with a request the visitor may have its last byte already.
    assert.ok(edgeSeconds >= 0.049 && client >= 0.049, `the visitor waited ${client} s, the edge ${edgeSeconds} s`);
  });
});

test('beacons_that_a_cut_of_the_network_keeps_come_later_and_those_it_loses_are_counted', { skip }, async () => {
  const counted = `select max(sequence) - min(sequence) + 1, count(distinct sequence) from beacon where page = '/cut'`;
  await visit('/cut', true, async (page, context) => {
    const ping = async () => {
      const sent = page.waitForResponse(response => response.url().endsWith('/ping') && response.ok());
      await page.clock.runFor(15_000);
      await sent;
    };
    const cut = async count => {
      await context.setOffline(true);
      for (let i = 0; i < count; i += 1) await page.clock.runFor(15_000);
      await context.setOffline(false);
      await ping();
    };
    await ping();
    const [, [kind, sequence,
      seconds]] = await rows("select kind, sequence, visible_seconds from beacon where page = '/cut' order by sequence",
        found => found.length === 2);
    assert.deepEqual([kind, sequence], ['ping', 1]);
    assert.ok(seconds >= 14 && seconds < 60, `it was visible for ${seconds} s`);
    await cut(5);
    assert.deepEqual(await rows(counted, ([row]) => row[0] >= 8), [[8, 8]], 'a short cut loses nothing');
    // The page keeps 20; of 25 and the one that goes out it lost 6.
    await cut(25);
    const [[expected, received]] = await rows(counted, ([row]) => row[0] >= 34);
    assert.deepEqual([expected, expected - received], [34, 6]);
  });
});

test('the_script_is_small_enough_to_be_on_every_page', { skip }, async () => {
  const script = Buffer.from(await (await fetch(`${edge.url}/ping/weir.js`)).arrayBuffer());
  const bytes = gzipSync(script, { level: 9 }).length;
  assert.ok(script.length > 1000 && bytes <= 1500, `${bytes} bytes packed`);
});
