// What the journeys need of a real weir: its address (WEIR_URL) and a directory whose `*.log` files it tails (WEIR_LOG_DIR).
// Without WEIR_URL, WEIR_BIN is started on a free port. One journey has a server whose process stops accepting.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdtemp, mkdir, rm } from 'node:fs/promises';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

/** Why the journeys cannot run, or false; CI (`WEIR_REQUIRE_UI=1`) makes that a failure. */
export function noWeir() {
  if (process.env.WEIR_URL || process.env.WEIR_BIN) return false;
  assert.notEqual(process.env.WEIR_REQUIRE_UI, '1', 'WEIR_URL or WEIR_BIN is required');
  return 'no weir to test: set WEIR_URL and WEIR_LOG_DIR, or WEIR_BIN';
}

/** The weir to test. @returns {Promise<{url: string, logs: string, stop: () => Promise<void>}>} */
export async function weir() {
  if (process.env.WEIR_URL) return { url: process.env.WEIR_URL, logs: process.env.WEIR_LOG_DIR ?? '', stop: async () => {} };
  return ownWeir();
}

/** One that is started for a journey of its own. @param {string[]} args @param {Record<string, string>} [env] @returns {Promise<{url: string, logs: string, stop: () => Promise<void>}>} */
export async function ownWeir(args = [], env = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'weir-ui-'));
  const logs = join(dir, 'logs');
  await mkdir(logs);
  const child = spawn(String(process.env.WEIR_BIN), ['up', '--listen', '127.0.0.1:0', '--data', join(dir, 'data'), '--tail',
    join(logs, '*.log'), ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  const url = await firstMatch(child.stdout, /http:\/\/[^\s/]+/);
  child.stdout.resume();
  const stop = async () => {
    const ended = new Promise(resolve => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
    await rm(dir, { recursive: true, force: true });
  };
  return { url, logs, stop };
}

/** `weir edge` on free ports, with a store and a page. @param {string[]} args @param {Record<string, string>} [env] @returns {Promise<{url: string, secureUrl: string, page: string, stop: () => Promise<void>}>} */
export async function weirEdge(args, env = {}) {
  const dir = await mkdtemp(join(tmpdir(), 'weir-ui-edge-'));
  const child = spawn(String(process.env.WEIR_BIN), ['edge', '--listen', '127.0.0.1:0', '--page', '127.0.0.1:0', '--data',
    join(dir, 'data'), ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', 'inherit'] });
  let said = '';
  const addresses = () => Array.from(said.matchAll(/^\s+(?:edge\s+)?(\S+:\d+)\s.*backends/gm), ([, address]) => address);
  for await (const line of createInterface({ input: child.stdout })) {
    said += `${line}\n`;
    if (/http:\/\//.test(said) && addresses().length > Number('WEIR_EDGE_LISTEN_TLS' in env)) break;
  }
  const page = /http:\/\/[^\s/]+/.exec(said)?.[0] ?? '';
  const [url, secureUrl] = [`http://${addresses()[0]}`, `https://${addresses()[1]}`];
  child.stdout.resume();
  const stop = async () => {
    const ended = new Promise(resolve => child.once('exit', resolve));
    child.kill('SIGTERM');
    await ended;
    await rm(dir, { recursive: true, force: true });
  };
  return { url, secureUrl, page, stop };
}

async function firstMatch(stream, pattern) {
  for await (const line of createInterface({ input: stream })) {
    const match = pattern.exec(line);
    if (match) return match[0];
  }
  throw new Error(`the program ended without printing ${pattern}`);
}

// Listens with a short queue, says its port, and never comes back to accept.
const STALLED = `const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 4 }, () => {
  require('node:fs').writeSync(1, server.address().port + '\\n');
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 120_000);
});`;

/** A listener whose process does not accept, and clients that keep coming until `stop`. */
export async function stalledListener() {
  const child = spawn(process.execPath, ['-e', STALLED], { stdio: ['ignore', 'pipe', 'inherit'] });
  const port = Number(await firstMatch(child.stdout, /^\d+/));
  const sockets = new Set();
  const come = () => {
    if (sockets.size > 200) return;
    const socket = connect(port, '127.0.0.1').on('error', () => {}).on('close', () => sockets.delete(socket));
    sockets.add(socket);
  };
  for (let i = 0; i < 12; i += 1) come();
  const timer = setInterval(() => { for (let i = 0; i < 4; i += 1) come(); }, 500);
  const stop = async () => {
    clearInterval(timer);
    sockets.forEach(socket => socket.destroy());
    const ended = new Promise(resolve => child.once('exit', resolve));
    child.kill('SIGKILL');
    await ended;
  };
  return { port, stop };
}
