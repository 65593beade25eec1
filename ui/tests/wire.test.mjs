// Wire: a capture is dropped on the page, read down to the stamps of one request, and kept only when asked.
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { cannotRun, shot, withPage } from './browser.mjs';
import { noWeir, weir } from './fixtures.mjs';
import { micros, stretches } from '../views/wire_request.js';

const skip = cannotRun() || noWeir();
/** @type {Awaited<ReturnType<typeof weir>>} */
let server;
let dir = '';
before(async () => {
  if (skip) return;
  dir = await mkdtemp(join(tmpdir(), 'weir-wire-'));
  await writeFile(join(dir, 'shop.pcap'), capture());
  await writeFile(join(dir, 'words.txt'), 'no capture, only words\n');
  server = await weir();
});
after(async () => { await server?.stop(); if (dir) await rm(dir, { recursive: true, force: true }); });

/** Visitor → edge (port 80) → upstream (port 8080), which thinks 400 of 410 ms; as pcap of raw IP. */
function capture() {
  const head = Buffer.alloc(24);
  head.writeUInt32LE(0xa1b2c3d4, 0); head.writeUInt16LE(2, 4); head.writeUInt16LE(4, 6); head.writeUInt32LE(65_535,
    16); head.writeUInt32LE(101, 20);
  const out = [head];
  const visitor = { from: [192, 0, 2, 1, 40_000], to: [192, 0, 2, 2, 80] };
  const edge = { from: [192, 0, 2, 2, 50_000], to: [192, 0, 2, 3, 8080] };
  const segment = (micros, { from, to }, isAnswer, seq, ack, flags, payload = '') => {
    const [a, b] = isAnswer ? [to, from] : [from, to];
    const bytes = Buffer.alloc(40 + payload.length);
    bytes.set([0x45, 0, (40 + payload.length) >> 8, (40 + payload.length) & 255, 0, 0, 0x40, 0, 64, 6, 0, 0, ...a.slice(0, 4),
      ...b.slice(0, 4)]);
    bytes.writeUInt16BE(a[4], 20); bytes.writeUInt16BE(b[4], 22); bytes.writeUInt32BE(seq, 24); bytes.writeUInt32BE(ack, 28);
    bytes.set([0x50, flags, 1, 0], 32);
    bytes.write(payload, 40, 'latin1');
    const record = Buffer.alloc(16);
    record.writeUInt32LE(1_700_000_000, 0); record.writeUInt32LE(micros, 4); record.writeUInt32LE(bytes.length,
      8); record.writeUInt32LE(bytes.length, 12);
    out.push(record, bytes);
  };
  const ask = 'GET /search?q=1 HTTP/1.1\r\nHost: shop\r\n\r\n';
  const answer = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';
  for (const [way, at] of [[visitor, 0], [edge, 5_000]]) { segment(at, way, false, 100, 0, 0x02); segment(at + 100, way, true, 500, 101,
    0x12); segment(at + 300, way, false, 101, 501, 0x10); }
  const [asked, answered] = [101 + ask.length, 501 + answer.length];
  segment(1_000, visitor, false, 101, 501, 0x18, ask);
  segment(6_000, edge, false, 101, 501, 0x18, ask);
  segment(406_000, edge, true, 501, asked, 0x18, answer);
  segment(406_100, edge, false, asked, answered, 0x10);
  segment(411_000, visitor, true, 501, asked, 0x18, answer);
  segment(412_000, visitor, false, asked, answered, 0x11);
  segment(412_100, visitor, true, answered, asked + 1, 0x11);
  return Buffer.concat(out);
}

const count = async () => {
  const body = JSON.stringify({ sql: 'select count(*) from wire_request' });
  return (await (await fetch(`${server.url}/api/sql`, { method: 'POST', headers: { 'content-type': 'application/json' },
    body })).json()).rows[0][0];
};

test('a_dropped_capture_is_read_down_to_the_stamps_of_one_request', { skip }, async () => {
  await withPage(server.url, async page => {
    await page.goto('/#/wire');
    await page.getByText('No tap is active.').waitFor();
    await page.getByLabel('capture file').setInputFiles(join(dir, 'shop.pcap'));
    await page.locator('.wire-port', { hasText: 'port 8080' }).waitFor();
    await page.locator('.wire .uplot canvas').waitFor();
    await page.locator('.wire-seconds tbody tr').first().click();
    const row = page.locator('.wire-requests tbody tr', { hasText: 'GET /search' });
    await row.click();
    const longest = page.locator('.way-stamps .is-longest');
    await longest.waitFor();
    assert.match((await longest.innerText()).replace(/\s+/g, ' '), /22:13:20\.406000.*400 ms.*port 8080 behind it thinks/);
    assert.equal(await page.locator('.way-bar i').count(), 7, 'a piece between each two stamps');
    assert.ok(page.url().includes('request='), 'the address leads back here');
    await shot(page, 'wire-light');
    await page.getByRole('button', { name: 'dark or light' }).click();
    await shot(page, 'wire-dark');
    assert.equal(await count(), 0, 'nothing is stored');
    await page.getByRole('button', { name: 'Keep its rows' }).click();
    await page.getByText('rows kept').waitFor();
    assert.equal(await count(), 2);
  });
});

test('what_is_no_capture_is_refused_with_a_hint', { skip }, async () => {
  await withPage(server.url, async page => {
    await page.goto('/#/wire');
    await page.getByLabel('capture file').setInputFiles(join(dir, 'words.txt'));
    await page.getByRole('alert').getByText('neither pcap nor pcapng').waitFor();
    await page.getByRole('alert').getByText('weir capture').waitFor();
    await page.getByRole('button', { name: 'Back to live' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
  }, { allows: /400/ });
});

test('stretches_end_where_the_next_begins_and_name_their_owner', () => {
  const at = n => `2026-11-21T00:00:00.${String(n).padStart(6, '0')}Z`;
  const request = { server_port: 80, request_first_ts: at(0), request_last_ts: at(10), response_first_ts: at(500),
    response_last_ts: at(700), response_acked_ts: null };
  const child = { server_port: 8080, request_first_ts: at(40), request_last_ts: at(50), response_first_ts: at(450),
    response_last_ts: at(460) };
  const owners = (r, c) => stretches(r, c).map(s => [s.owner, Math.round(s.seconds * 1e6)]);
  assert.deepEqual(owners(request, [child]), [[undefined, 0], ['client', 10], ['queue', 30], ['relay', 10], ['app', 400], ['relay', 50],
    ['body', 200]]);
  assert.deepEqual(owners(request, []), [[undefined, 0], ['client', 10], ['app', 490], ['body', 200]]);
  assert.equal(micros('2026-11-21T00:00:00.000001Z') - micros('2026-11-21T00:00:00Z'), 1);
});
