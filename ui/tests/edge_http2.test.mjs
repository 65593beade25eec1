// Chromium speaks HTTP/2 to `weir edge`, whose backend speaks HTTP/1.1: cookies and WebSockets.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { chromium } from 'playwright-core';
import { CHROMIUM, FLAGS, cannotRun } from './browser.mjs';
import { noWeir, weirEdge } from './fixtures.mjs';

const skip = cannotRun() || (process.env.WEIR_BIN ? false : noWeir() || 'no weir to start: set WEIR_BIN');
/** @type {Awaited<ReturnType<typeof weirEdge>>} */
let edge;
/** @type {import('node:http').Server} */
let shop;
/** @type {import('playwright-core').Browser} */
let browser;
let dir = '';
/** Paths of the upgrades that the shop has accepted. @type {(string | undefined)[]} */
const upgrades = [];

/** A page with many cookies, and the fields of a request as they came. @type {import('node:http').RequestListener} */
function serve(request, response) {
  if (request.url === '/fields') return response.end(JSON.stringify(request.rawHeaders));
  response.setHeader('content-type', 'text/html');
  response.setHeader('set-cookie', Array.from({ length: 30 }, (_, at) => `name${at}=value${at}; Path=/`));
  response.end('<!doctype html><title>shop</title><link rel="icon" href="data:,"><h1>shop</h1>');
}

/** Sends each text message back, unmasked. @param {import('node:http').IncomingMessage} request @param {import('node:stream').Duplex} socket */
function echo(request, socket) {
  upgrades.push(request.url);
  const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
  const accept = createHash('sha1').update(key).digest('base64');
  const head = ['HTTP/1.1 101 Switching Protocols', 'Connection: Upgrade', 'Upgrade: websocket', `Sec-WebSocket-Accept: ${accept}`, '', ''];
  socket.write(head.join('\r\n'));
  socket.on('error', () => {});
  let bytes = Buffer.alloc(0);
  socket.on('data', part => {
    bytes = Buffer.concat([bytes, part]);
    while (bytes.length >= 6 && bytes.length >= 6 + (bytes[1] & 127)) {
      const length = bytes[1] & 127;
      const [kind, mask, text] = [bytes[0] & 15, bytes.subarray(2, 6), bytes.subarray(6, 6 + length)];
      bytes = bytes.subarray(6 + length);
      if (kind !== 1) return socket.end();
      socket.write(Buffer.concat([Buffer.from([0x81, length]), Buffer.from(text.map((byte, at) => byte ^ mask[at % 4]))]));
    }
  });
}

before(async () => {
  if (skip) return;
  dir = await mkdtemp(join(tmpdir(), 'weir-ui-http2-'));
  const [key, certificate] = ['key.pem', 'certificate.pem'].map(name => join(dir, name));
  execFileSync('openssl', ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2', '-subj', '/CN=localhost',
    '-keyout', key, '-out', certificate], { stdio: 'ignore' });
  shop = createServer(serve).on('upgrade', echo);
  await new Promise(resolve => shop.listen(0, '127.0.0.1', () => resolve(undefined)));
  edge = await weirEdge(['--backend', `127.0.0.1:${/** @type {import('node:net').AddressInfo} */ (shop.address()).port}`],
    { WEIR_EDGE_LISTEN_TLS: '127.0.0.1:0', WEIR_EDGE_TLS_CERTIFICATE_FILES: certificate, WEIR_EDGE_TLS_KEY_FILES: key });
  browser = await chromium.launch({ executablePath: CHROMIUM, args: [...FLAGS, '--ignore-certificate-errors'] });
});
after(async () => {
  await browser?.close();
  await edge?.stop();
  shop?.close();
  shop?.closeAllConnections();
  if (dir) await rm(dir, { recursive: true, force: true });
});

test('cookies_and_websockets_of_a_browser_pass_over_http2', { skip }, async () => {
  const context = await browser.newContext({ baseURL: edge.secureUrl });
  const page = await context.newPage();
  page.setDefaultTimeout(30_000);
  await page.goto('/');
  assert.equal(await page.evaluate(() => /** @type {any} */ (performance.getEntriesByType('navigation')[0]).nextHopProtocol), 'h2');

  const fields = await page.evaluate(async () => (await fetch('/fields')).json());
  const cookies = fields.filter((_, at) => at % 2 === 1 && fields[at - 1].toLowerCase() === 'cookie');
  assert.deepEqual(cookies, [Array.from({ length: 30 }, (_, at) => `name${at}=value${at}`).join('; ')]);

  const answers = await page.evaluate(async () => {
    const sockets = ['/one', '/two'].map(path => new WebSocket(`wss://${location.host}${path}`));
    return Promise.all(sockets.map(socket => new Promise((resolve, reject) => {
      socket.onopen = () => socket.send(`hello ${new URL(socket.url).pathname}`);
      socket.onmessage = ({ data }) => { socket.close(); resolve(data); };
      socket.onerror = () => reject(new Error(`${socket.url} failed`));
    })));
  });
  assert.deepEqual(answers, ['hello /one', 'hello /two']);
  assert.deepEqual(upgrades.sort(), ['/one', '/two']);
  const versions = await rows(`select network_protocol_version from request where tier = 'edge' and url_path in ('/one', '/two')`, 2);
  assert.deepEqual(versions, [['2'], ['2']]);
});

/** The rows of a query once there are `count`. @param {string} sql @param {number} count @returns {Promise<any[][]>} */
async function rows(sql, count) {
  const end = Date.now() + 20_000;
  for (;;) {
    const answer = await fetch(`${edge.page}/api/sql`, { method: 'POST', headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ sql }) });
    const body = await answer.json();
    if (answer.ok && body.rows.length === count) return body.rows;
    assert.ok(Date.now() < end, `${sql} gave ${JSON.stringify(body)}`);
    await new Promise(resolve => setTimeout(resolve, 100));
  }
}
