// @ts-check
// Turns the search box of the logs into SQL over `request`, `log` and `reject`. Pure.
// A word matches the text, `field:value` a column; a table without the column gives no row.
import { quote } from './format.js';

const TEXT = {
  log: ['body', 'program', 'source'],
  request: ['url_path', 'url_query', 'server_address', 'client_address', 'user_agent_original', 'http_request_header_referer', 'request_id', 'upstream_address'],
  reject: ['raw', 'detail'],
};
const SHORT = {
  status: 'http_response_status_code', method: 'http_request_method', path: 'url_path', query: 'url_query', client: 'client_address',
    ip: 'client_address',
  ua: 'user_agent_original', referer: 'http_request_header_referer', level: 'severity', server: 'server_address',
    upstream: 'upstream_address',
  duration: 'duration_seconds', id: 'request_id', file: 'source',
};
export const KINDS = ['request', 'log', 'reject'];

/** What a row is called in the histogram and in the list, by severity or status. */
const LEVEL = {
  request: "case when http_response_status_code >= 500 then 'error' when http_response_status_code >= 400 then 'warn' else 'normal' end",
  log: "case when severity in ('error', 'critical', 'alert', 'emergency') then 'error' when severity = 'warn' then 'warn' else 'normal' end",
  reject: "'error'",
};
const LABEL = { request: 'cast(http_response_status_code as varchar)', log: 'severity', reject: 'reason' };
const MESSAGE = {
  request: "concat(coalesce(http_request_method, '-'), ' ', coalesce(url_path, '-'), case when url_query is null then '' else concat('?', url_query) end)",
  log: 'body',
  reject: "concat(reason, ': ', raw)",
};

/** @typedef {{field: string | null, op: string, value: string, isNot: boolean}} Term */

/** The terms of a search: `word`, `"some words"`, `field:value`, `field:>1`, `-term`. @param {string} text @returns {Term[]} */
export function parseSearch(text) {
  const terms = [];
  for (const match of text.matchAll(/(-?)(?:([A-Za-z_][\w.]*):)?(>=|<=|>|<)?(?:"((?:[^"\\]|\\.)*)"|(\S+))/g)) {
    const [, minus, field, op, quoted, bare] = match;
    const value = quoted === undefined ? bare : quoted.replace(/\\(.)/g, '$1');
    terms.push({ field: field ? SHORT[field] ?? field : null, op: op ?? ':', value: field || !op ? value : op + value,
      isNot: minus === '-' });
  }
  return terms;
}

/** The search with one more term, or without it when it is there. @param {string} text @param {string} term */
export function toggleTerm(text, term) {
  const padded = ` ${text} `;
  return (padded.includes(` ${term} `) ? padded.replace(` ${term} `, ' ') : `${padded}${term}`).trim();
}

/** `field:value` with quotes when needed. @param {string} field @param {any} value */
export const termOf = (field, value) => `${field}:${/^[\w./:@%+=,-]+$/.test(String(value)) ? value
  : `"${String(value).replace(/(["\\])/g, '\\$1')}"`}`;

const like = text => quote(`%${text.replace(/[\\%_]/g, '\\$&')}%`);

/** @param {Term} term @param {string} table @param {Map<string, string>} columns name → kind */
function condition(term, table, columns) {
  const sql = positive(term, table, columns);
  if (!term.isNot) return sql;
  return { true: 'false', false: 'true' }[sql] ?? `not coalesce(${sql}, false)`;
}

function positive(term, table, columns) {
  if (term.field === null) return `(${TEXT[table].map(c => `${c} ilike ${like(term.value)}`).join(' or ')})`;
  if (term.field === 'kind') return String(term.value === table);
  if (term.field.startsWith('attrs.')) return columns.has('attrs') ? `attrs[${quote(term.field.slice(6))}] = ${quote(term.value)}`
    : 'false';
  const kind = columns.get(term.field);
  if (!kind) return 'false';
  if (kind === 'integer' || kind === 'float') return numeric(term);
  if (term.op !== ':') return `${term.field} ${term.op} ${quote(term.value)}`;
  if (term.value.includes('*')) return `${term.field} ilike ${quote(term.value.replace(/[\\%_]/g, '\\$&').replaceAll('*', '%'))}`;
  return `${term.field} = ${quote(term.value)}`;
}

function numeric({ field, op, value }) {
  const group = /^([1-5])xx$/i.exec(value);
  if (group) return `${field} between ${group[1]}00 and ${group[1]}99`;
  return /^-?\d+(\.\d+)?(e-?\d+)?$/i.test(value) ? `${field} ${op === ':' ? '=' : op} ${value}` : 'false';
}

/** Words of a search that name no column of any table. @param {Term[]} terms @param {Record<string, Map<string, string>>} schema */
export const unknownFields = (terms, schema) => terms.map(t => t.field)
  .filter(field => field && field !== 'kind' && !field.startsWith('attrs.') && !KINDS.some(k => schema[k]?.has(field)));

/**
 * The condition for each table; a table that cannot match is left out.
 * @param {string} text @param {string} range condition on ts @param {Record<string, Map<string, string>>} schema
 */
export function whereOf(text, range, schema) {
  const terms = parseSearch(text);
  return KINDS.map(table => ({ table, parts: terms.map(t => condition(t, table, schema[table] ?? new Map())) }))
    .filter(({ parts }) => !parts.includes('false'))
    .map(({ table, parts }) => ({ table, where: [range, ...parts.filter(part => part !== 'true')].join('\n    and ') }));
}

const none = "select cast(null as timestamp) as ts where false";

/**
 * The newest rows. Each table is cut to its newest before its columns are put together, so a busy hour costs no more text than a quiet one.
 * @param {{table: string, where: string}[]} tables @param {number} limit
 */
export function rowsSql(tables, limit) {
  const selects = tables.map(({ table, where }) => `  select ts, '${table}' as kind, ${LEVEL[table]} as level, ${LABEL[table]} as label,
    host, ${table === 'reject' ? 'parser' : 'program'} as program, ${MESSAGE[table]} as message,
    ${table === 'request' ? 'duration_seconds' : 'cast(null as double)'} as duration_seconds, source, source_offset
  from (select * from ${table} where ${where}
    order by ts desc limit ${limit})`);
  return selects.length ? `select * from (\n${selects.join('\n  union all\n')}\n) order by ts desc, source_offset desc limit ${limit}`
    : none;
}

/** Rows over time by level. @param {{table: string, where: string}[]} tables @param {number} stepSeconds */
export function histogramSql(tables, stepSeconds) {
  if (!tables.length) return none;
  return `select date_bin(interval '${stepSeconds} seconds', ts) as ts,
  count(*) filter (where level = 'normal') as normal, count(*) filter (where level = 'warn') as warn, count(*) filter (where level = 'error') as error
from (
${tables.map(({ table, where }) => `  select ts, ${LEVEL[table]} as level from ${table} where ${where}`).join('\n  union all\n')}
) group by 1 order by 1`;
}

/** The most frequent values of a field. @param {{table: string, where: string}[]} tables @param {string} field @param {Record<string, Map<string, string>>} schema */
export function facetSql(tables, field, schema) {
  const having = tables.filter(({ table }) => field === 'kind' || schema[table]?.has(field));
  if (!having.length) return null;
  const selects = having.map(({ table, where }) => `  select ${field === 'kind' ? `'${table}'`
    : `cast(${field} as varchar)`} as value from ${table} where ${where}`);
  return `select value, count(*) as n from (\n${selects.join('\n  union all\n')}\n) where value is not null group by 1 order by 2 desc, 1 limit 8`;
}

/** All fields of one row of the list. @param {any} row */
export const rowSql = row => `select * from ${row.kind}
where ts = '${row.ts}' and host = ${quote(row.host)} and source = ${quote(row.source)}${row.source_offset === null ? ''
  : ` and source_offset = ${row.source_offset}`}
limit 5`;
