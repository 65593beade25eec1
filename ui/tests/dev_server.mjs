// Serves the page with answers of a given state, for tests of the states that a healthy weir does not show.
// Speaks docs/api.md; node only, no packages. `node dev_server.mjs [PORT] [empty|error|full|silent]`.
import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import { extname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const UI = fileURLToPath(new URL('..', import.meta.url));
const TYPES = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript; charset=utf-8', '.css': 'text/css; charset=utf-8', '.svg': 'image/svg+xml' };
export const POLICY = "default-src 'self'; img-src 'self' data:";

const column = (name, kind, unit = '') => ({ name, kind, unit, is_nullable: true, doc: `The ${name}.` });
const TABLES = ['request', 'log', 'reject'].map(name => ({ name, doc: `A ${name}.`, grain: 'one row per line', source: 'a fixture',
  sort: ['ts'], row_count: 0,
  columns: [column('ts', 'timestamp', 'ts'), column('host', 'text'), column('source', 'text')] }));

function answers(state) {
  const now = new Date().toISOString();
  const age = state === 'silent' ? 120_000 : 0;
  return {
    '/api/status': { version: 'fixture', host: 'fixture', role: 'up', now, started_ts: now, data_dir: '/nowhere',
      hosts: [{ host: 'fixture', last_ts: new Date(Date.now() - age).toISOString() }],
      log_sources: [], listeners: [], store: { hot_rows: 0, hot_bytes: 0, wal_bytes: 0, file_count: 0, file_bytes: 0, file_rows: 0,
        is_full: state === 'full', message: state === 'full' ? 'no room is left in /nowhere' : null } },
    '/api/edge': { is_here: false },
    '/api/haproxy': { may_change: false, haproxies: [] },
    '/api/findings': { findings: [] },
    '/api/incidents': { incidents: [] },
    '/api/silences': { silences: [] },
    '/api/notices': { notices: [] },
    '/api/oncall': { rotas: [] },
    '/api/actions': { enabled: true, stopped: null, public_key: '', heals: [], ladders: [], runs: [] },
    '/api/slos': { slos: [] },
    '/api/rules': { rules: [] },
    '/api/tables': { tables: TABLES },
  };
}

/**
 * Starts a fixture server; `state` may be changed while it runs. `routes` answers before the states do, with a status and a body.
 * @param {{port?: number, state?: string, routes?: (method: string, path: string, body: any) => [number, any] | undefined}} options
 */
export function start({ port = 0, state = 'empty', routes } = {}) {
  const control = { state, url: '', close: () => Promise.resolve() };
  const server = createServer(async (request, response) => {
    const path = new URL(request.url ?? '/', 'http://fixture').pathname;
    const send = (status, body, type = 'application/json') => {
      response.writeHead(status, { 'content-type': type, 'content-security-policy': POLICY, 'x-content-type-options': 'nosniff' });
      response.end(typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body));
    };
    const own = routes && path.startsWith('/api/') && routes(request.method ?? 'GET', path, await bodyOf(request));
    if (own) {
      send(...own);
    } else if (path === '/api/sql') {
      if (control.state === 'error') send(400, { error: 'no column `nosuch` in `request`', hint: 'the columns are under SQL, Tables' });
      else send(200, { columns: [column('ts', 'timestamp', 'ts')], rows: [], row_count: 0, is_truncated: false, elapsed_seconds: 0.001 });
    } else if (path.startsWith('/api/')) {
      const body = answers(control.state)[path];
      if (body) send(200, body); else send(404, { error: `nothing is at ${path}` });
    } else {
      const file = normalize(join(UI, path === '/' ? 'index.html' : path));
      if (!file.startsWith(UI) || !TYPES[extname(file)]) { send(404, { error: 'no such page' }); return; }
      await readFile(file).then(body => send(200, body, TYPES[extname(file)]), () => send(404, { error: 'no such page' }));
    }
  });
  return new Promise(resolve => server.listen(port, '127.0.0.1', () => {
    control.url = `http://127.0.0.1:${/** @type {any} */ (server.address()).port}`;
    control.close = () => new Promise(done => { server.close(() => done(undefined)); server.closeAllConnections(); });
    resolve(control);
  }));
}

async function bodyOf(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  const text = Buffer.concat(parts).toString();
  return text ? JSON.parse(text) : undefined;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const control = await start({ port: Number(process.argv[2] ?? 4771), state: process.argv[3] ?? 'empty' });
  process.stdout.write(`${control.url}\n`);
}
