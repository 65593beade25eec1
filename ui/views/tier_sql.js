// @ts-check
// Pieces of SQL that the overview's tiers share. `$scope` becomes the condition on the host.

export const LAST_MINUTE = "ts > now() - interval '1 minute'$scope";
// Whole bins only: a bin that is still filling would look like a fall.
export const LAST_QUARTER = "ts >= date_bin(interval '15 seconds', now() - interval '15 minutes') and ts < date_bin(interval '15 seconds', now())$scope";
export const BIN = "date_bin(interval '15 seconds', ts)";
// Columns of the view `proxy_request`.
export const TO_CLIENT = 'to_client_seconds';
export const IN_APP = 'first_byte_seconds';
/** A percentile. @param {number} share @param {string} expression */
export const p = (share, expression) => `approx_percentile_cont(${expression}, ${share})`;

/** Rise per second of counters by 15 s, summed over `keys`; a counter that went backwards (a reset) counts for nothing, and after a
 * gap without samples it is the mean of the gap. */
export const rise = (table, keys, columns, extra = '') => `with sample as (
  select ${BIN} as bin, host, ${keys}, ${columns.map(([c, name]) => `max(${c}) as ${name}`).join(', ')}
  from ${table} where ${LAST_QUARTER}${extra}
  group by bin, host, ${keys}
), step as (
  select bin, extract(epoch from bin) - lag(extract(epoch from bin)) over (partition by host, ${keys} order by bin) as seconds,
    ${columns.map(([, name]) => `${name} - lag(${name}) over (partition by host, ${keys} order by bin) as ${name}`).join(', ')} from sample
)
select bin as ts, ${columns.map(([, name]) => `sum(case when ${name} >= 0 then ${name} / seconds end) as ${name}`).join(', ')}
from step group by bin order by bin`;

/** A text in SQL. @param {string} text */
export const quoted = text => `'${text.replaceAll("'", "''")}'`;

/** A query for one host or all. @param {string} sql @param {string} host */
export const scoped = (sql, host) => sql.replaceAll('$scope', host ? ` and host = ${quoted(host)}` : '');
