// @ts-check
// Calls weir's HTTP API and knows whether weir still answers; the contract is docs/api.md.
// Only `/api/status` decides that weir is gone: a query that fails on its own is that panel's error.

/** @typedef {{name: string, kind: string, unit: string}} Column */
/** @typedef {{columns: Column[], rows: any[][], row_count: number, is_truncated: boolean, elapsed_seconds: number}} Answer */

const QUERIES_AT_ONCE = 4;
const TIMEOUT_MS = 20_000;
const CAPTURE_TIMEOUT_MS = 120_000;
const REPLAY_TIMEOUT_MS = 90_000;
const STATUS_EVERY_MS = 5_000;

/** An error response of the API; `hint` is the remedy. */
export class ApiError extends Error {
  /** @param {string} message @param {string} [hint] @param {number} [status] */
  constructor(message, hint, status = 0) {
    super(message);
    this.hint = hint;
    this.status = status;
  }
}

let running = 0;
/** @type {(() => void)[]} */
const waiting = [];

async function slot() {
  if (running >= QUERIES_AT_ONCE) await new Promise(resolve => waiting.push(() => resolve(undefined)));
  running += 1;
}

function release() {
  running -= 1;
  waiting.shift()?.();
}

/** @param {string} path @param {RequestInit} [init] @param {number} [timeout] @returns {Promise<Response>} */
async function request(path, init = {}, timeout = TIMEOUT_MS) {
  const signals = [AbortSignal.timeout(timeout)];
  if (init.signal) signals.push(init.signal);
  let response;
  try {
    response = await fetch(path, { ...init, signal: AbortSignal.any(signals) });
  } catch (cause) {
    if (init.signal?.aborted) throw cause;
    if (path !== '/api/status') check();
    throw new ApiError('weir is not responding', 'is `weir up` still running on this address?');
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new ApiError(body.error ?? `${path}: status ${response.status}`, body.hint, response.status);
}

/** One JSON answer. @param {string} path @param {AbortSignal} [signal] @returns {Promise<any>} */
export const get = async (path, signal) => (await request(path, { signal })).json();

/** Runs one query. @param {string} sql @param {{limit?: number, signal?: AbortSignal}} [options] @returns {Promise<Answer>} */
export async function runSql(sql, { limit = 1000, signal } = {}) {
  await slot();
  try {
    signal?.throwIfAborted();
    return await (await post(sql, limit, '', signal)).json();
  } finally {
    release();
  }
}

/** Times of two sets of requests. @param {{a: string, b: string, measure?: string}} question @param {AbortSignal} [signal] @returns {Promise<any>} */
export const compareTimes = async (question, signal) => (await postJson('/api/compare', question, signal)).json();

/** What a query would read. @param {string} sql @param {AbortSignal} [signal] @returns {Promise<any>} */
export const forecastSql = async (sql, signal) => (await postJson('/api/sql/forecast', { sql }, signal)).json();

/** All rows of a query as a file. @param {string} sql @param {'csv' | 'parquet'} format @returns {Promise<Blob>} */
export const runFile = async (sql, format) => (await postJson(`/api/sql?format=${format}`, { sql })).blob();

/** What lines become. @param {{lines: string, pattern?: string, pipeline?: string}} question @param {AbortSignal} [signal] @returns {Promise<any>} */
export const parseLines = async (question, signal) => (await postJson('/api/parse', question, signal)).json();

/** Says whether a finding was real. @param {string} id @param {{verdict: string, action?: string}} said @returns {Promise<any>} */
export const judgeFinding = async (id, said) => (await postJson(`/api/findings/${encodeURIComponent(id)}/judgement`, said)).json();

/** Acknowledges or resolves an incident; the answer says what changed. @param {string} id @param {'ack' | 'resolve'} action @returns {Promise<any>} */
export const changeIncident = async (id, action) => (await postJson(`/api/incidents/${encodeURIComponent(id)}/${action}`, {})).json();

/** Holds back notices. @param {{rule: string, host?: string, for: string, reason: string}} silence @returns {Promise<any>} */
export const addSilence = async silence => (await postJson('/api/silences', silence)).json();

/** Ends a silence now. @param {string} id @returns {Promise<any>} */
export const endSilence = async id => (await postJson(`/api/silences/${encodeURIComponent(id)}/end`, {})).json();

/** Sends a test to a receiver and waits for its answer. @param {string} receiver @returns {Promise<any>} */
export const testReceiver = async receiver => (await postJson('/api/notify/test', { receiver })).json();

/** A person's answer about a repair. @param {string} run @param {'approve' | 'refuse' | 'undo'} answer @param {{by: string}} body @returns {Promise<any>} */
export const decideRun = async (run, answer, body) => (await postJson(`/api/actions/${encodeURIComponent(run)}/${answer}`, body)).json();

/** No repair starts from now on. @param {{by: string, reason: string}} body @returns {Promise<any>} */
export const stopRepairs = async body => (await postJson('/api/heal/stop', body)).json();

/** Repairs may start again. @param {{by: string}} body @returns {Promise<any>} */
export const startRepairs = async body => (await postJson('/api/heal/start', body)).json();

/** A person's yes to a proposed threshold. @param {string} rule @param {{value: number, proposed: number}} yes @returns {Promise<any>} */
export const acceptThreshold = async (rule, yes) => (await postJson(`/api/thresholds/${encodeURIComponent(rule)}`, yes)).json();

/** When a rule would have fired. @param {string} rule @param {number} seconds @returns {Promise<any>} */
export const replayRule = async (rule, seconds) => (await request(`/api/rules/${encodeURIComponent(rule)}/replay?since_seconds=${seconds}`,
  {}, REPLAY_TIMEOUT_MS)).json();

/** A capture, understood; its rows are kept only when asked. @param {File} file @param {boolean} keep @returns {Promise<any>} */
export async function readCapture(file, keep) {
  const headers = { 'content-type': 'application/octet-stream' };
  const path = `/api/wire?${new URLSearchParams({ name: file.name, keep: String(keep) })}`;
  return (await request(path, { method: 'POST', headers, body: file }, CAPTURE_TIMEOUT_MS)).json();
}

/** Gives a backend of this weir's edge another weight; 0 drains it. @param {string} backend @param {number} weight @returns {Promise<any>} */
export const setWeight = async (backend, weight) => (await postJson('/api/edge/backend', { backend, weight })).json();

/** Tells a server of an HAProxy what to do. @param {{socket: string, server: string, order?: string, weight?: number}} order @returns {Promise<any>} */
export const orderHaproxy = async order => (await postJson('/api/haproxy/server', order)).json();

const post = (sql, limit, suffix, signal) => postJson(`/api/sql${suffix}`, { sql, limit }, signal);

function postJson(path, body, signal) {
  const headers = { 'content-type': 'application/json' };
  return request(path, { method: 'POST', headers, body: JSON.stringify(body), signal });
}

/** Rows of an answer as objects. @param {Answer | undefined} answer @returns {any[]} */
export function objects(answer) {
  return (answer?.rows ?? []).map(row => Object.fromEntries(row.map((value, i) => [answer.columns[i].name, value])));
}

// ---- is weir there? ----

/** @typedef {{is_lost: boolean, last_ok: number | null, retry_at: number | null, status: any, problem: string | null}} Connection `problem`: weir answers, but only to say what is wrong */
/** @type {Connection} */
let connection = { is_lost: false, last_ok: null, retry_at: null, status: null, problem: null };
/** @type {Set<(c: Connection) => void>} */
const watchers = new Set();
let timer = 0;
let failures = 0;
let isChecking = false;

export const currentConnection = () => connection;

/** Calls `watcher` at each change; the answer ends it. @param {(c: Connection) => void} watcher */
export function watchConnection(watcher) {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
}

function changed(next) {
  connection = { ...connection, ...next };
  watchers.forEach(watcher => watcher(connection));
}

/** Asks for the status now, and again after a while: sooner first, then rarer, while weir is gone. */
export async function check() {
  if (isChecking) return;
  isChecking = true;
  clearTimeout(timer);
  let delay = STATUS_EVERY_MS;
  try {
    const status = await get('/api/status');
    failures = 0;
    changed({ is_lost: false, last_ok: Date.now(), retry_at: null, status, problem: null });
  } catch (error) {
    failures += 1;
    delay = Math.min(1_000 * 2 ** (failures - 1), 15_000);
    const isThere = error.status > 0;
    changed({ is_lost: !isThere, problem: isThere ? error.message : null, retry_at: Date.now() + delay });
  }
  isChecking = false;
  timer = setTimeout(check, delay);
}
