// @ts-check
// Pieces of SQL that the overview's tiers share. `$scope` becomes the condition on the host.

export const LAST_MINUTE = "ts > now() - interval '1 minute'$scope";
// Whole bins only: a bin that is still filling would look like a fall.
export const LAST_QUARTER = "ts >= date_bin(interval '15 seconds', now() - interval '15 minutes') and ts < date_bin(interval '15 seconds', now())$scope";
export const BIN = "date_bin(interval '15 seconds', ts)";
export const TO_CLIENT = 'duration_seconds - coalesce(upstream_response_seconds, upstream_header_seconds, 0) - coalesce(queue_seconds, 0)';
export const IN_APP = 'upstream_header_seconds - coalesce(upstream_connect_seconds, 0)';
/** A percentile. @param {number} share @param {string} expression */
export const p = (share, expression) => `approx_percentile_cont(${expression}, ${share})`;

/** Rise per second of counters by 15 s, summed over `keys`; a counter that went backwards (a reset) counts for nothing. */
export const rise = (table, keys, columns, extra = '') => `with sample as (
  select ${BIN} as bin, host, ${keys}, ${columns.map(([c]) => `max(${c}) as ${c}`).join(', ')}
  from ${table} where ${LAST_QUARTER}${extra}
  group by bin, host, ${keys}
), step as (
  select bin, ${columns.map(([c]) => `${c} - lag(${c}) over (partition by host, ${keys} order by bin) as ${c}`).join(', ')} from sample
)
select bin as ts, ${columns.map(([c, name]) => `sum(case when ${c} >= 0 then ${c} end) / 15.0 as ${name}`).join(', ')}
from step group by bin order by bin`;

/** A text in SQL. @param {string} text */
export const quoted = text => `'${text.replaceAll("'", "''")}'`;

/** A query for one host or all. @param {string} sql @param {string} host */
export const scoped = (sql, host) => sql.replaceAll('$scope', host ? ` and host = ${quoted(host)}` : '');
