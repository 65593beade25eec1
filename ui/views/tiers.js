// @ts-check
// The tiers of the overview as data: what each shows and by which query. One tier is one entry.
// `$scope` in a query becomes the condition on the host; a column's unit follows from its name.

import { BIN, IN_APP, LAST_MINUTE, LAST_QUARTER, TO_CLIENT, p, rise } from './tier_sql.js';

/** @typedef {{column: string, label: string, per?: string}} Figure */
/** @typedef {{id: string, title: string, of: string, tiers: string[], queues?: string, sql: string, figures: Figure[], spark?: {sql: string, label: string}, empty: string}} Tier */

/** @type {Tier[]} */
export const TIERS = [
  {
    id: 'client', title: 'Client', of: 'clients and the network to them', tiers: ['client'],
    sql: `select ${p(0.95, TO_CLIENT)} as p95_seconds,
  ${p(0.5, TO_CLIENT)} as p50_seconds,
  count(distinct client_address) as clients,
  avg(case when http_response_status_code = 499 or termination_state like 'C%' then 1.0 else 0.0 end) as aborted_ratio,
  avg(case when http_response_status_code between 400 and 498 then 1.0 else 0.0 end) as refused_ratio
from proxy_request where ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'p95_seconds', label: 'send time to clients, p95' }, { column: 'p50_seconds', label: 'p50' },
      { column: 'clients', label: 'addresses' },
      { column: 'aborted_ratio', label: 'aborted by clients' }, { column: 'refused_ratio', label: '4xx responses' }],
    spark: { label: 'send time to clients, p95', sql: `select ${BIN} as ts, ${p(0.95, TO_CLIENT)} as p95_seconds
from proxy_request where ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No requests in the last minute.',
  },
  {
    id: 'proxy', title: 'Edge and proxy', of: 'nginx, HAProxy, Apache', tiers: ['edge', 'proxy'], queues: 'proxy',
    sql: `select count(*) / 60.0 as requests_per_second,
  ${p(0.5, 'duration_seconds')} as p50_seconds,
  ${p(0.95, 'duration_seconds')} as p95_seconds,
  ${p(0.95, 'queue_seconds')} as queue_seconds_p95,
  avg(case when http_response_status_code >= 500 then 1.0 else 0.0 end) as error_ratio,
  sum(coalesce(response_bytes, response_body_bytes)) / 60.0 as sent_bytes_per_second
from proxy_request where ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'requests_per_second', label: 'requests' }, { column: 'p50_seconds', label: 'total time, p50' },
      { column: 'p95_seconds', label: 'p95' },
      { column: 'queue_seconds_p95', label: 'own queue, p95' }, { column: 'error_ratio', label: '5xx responses' },
        { column: 'sent_bytes_per_second', label: 'sent' }],
    spark: { label: 'requests and 5xx', sql: `select ${BIN} as ts, count(*) / 15.0 as requests_per_second,
  count(*) filter (where http_response_status_code >= 500) / 15.0 as errors_per_second
from proxy_request where ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No requests in the last minute.',
  },
  {
    id: 'app', title: 'Application', of: 'upstreams of the proxy', tiers: ['app'], queues: 'app',
    sql: `select ${p(0.95, IN_APP)} as p95_seconds,
  ${p(0.5, IN_APP)} as p50_seconds,
  ${p(0.95, 'upstream_connect_seconds')} as connect_seconds_p95,
  count(*) / 60.0 as requests_per_second,
  avg(case when upstream_status_code >= 500 then 1.0 else 0.0 end) as error_ratio,
  count(distinct upstream_address) as upstreams
from proxy_request where upstream_header_seconds is not null and ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'p95_seconds', label: 'first byte, p95' }, { column: 'p50_seconds', label: 'p50' },
      { column: 'connect_seconds_p95', label: 'connect, p95' },
      { column: 'requests_per_second', label: 'passed on' }, { column: 'error_ratio', label: '5xx errors' },
        { column: 'upstreams', label: 'upstreams' }],
    spark: { label: 'first byte, p95', sql: `select ${BIN} as ts, ${p(0.95, IN_APP)} as p95_seconds
from proxy_request where upstream_header_seconds is not null and ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No proxied requests in the last minute.',
  },
  {
    id: 'db', title: 'Database', of: 'PostgreSQL, MySQL, Redis, …', tiers: ['db'], queues: 'db',
    sql: `select max(accept_queue_length) as accept_queue_length_max,
  count(distinct server_port) as ports,
  sum(accept_queue_length) / nullif(sum(accept_queue_limit), 0) as mean_ratio
from listener where process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'mongod', 'memcached') and ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'accept_queue_length_max', label: 'longest accept queue' }, { column: 'ports', label: 'ports' }],
    spark: { label: 'longest accept queue', sql: `select ${BIN} as ts, max(accept_queue_length) as accept_queue_length_max
from listener where process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'mongod', 'memcached') and ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No database listens on this host.',
  },
  {
    id: 'disk', title: 'Disk', of: 'the busiest device', tiers: ['disk'],
    sql: `with device as (
  select host, device, date_part('epoch', max(ts)) - date_part('epoch', min(ts)) as span,
    max(busy_seconds_total) - min(busy_seconds_total) as busy,
    max(read_seconds_total + write_seconds_total) - min(read_seconds_total + write_seconds_total) as spent,
    max(reads_total + writes_total) - min(reads_total + writes_total) as operations,
    max(read_bytes_total) - min(read_bytes_total) as read, max(written_bytes_total) - min(written_bytes_total) as written
  from disk_stat where not is_partition and ${LAST_MINUTE}
  group by host, device
), space as (
  select max(1.0 - available_bytes * 1.0 / size_bytes) as fullest_ratio from filesystem
  where size_bytes > 0 and not is_read_only and ${LAST_MINUTE}
)
select busy / span as busy_ratio, device, spent / nullif(operations, 0) as await_seconds, operations / span as operations_per_second,
  read / span as read_bytes_per_second, written / span as written_bytes_per_second, fullest_ratio
from device cross join space where span > 0 order by busy desc limit 1`,
    figures: [{ column: 'busy_ratio', label: 'busy' }, { column: 'device', label: 'device' },
      { column: 'await_seconds', label: 'per operation' },
      { column: 'operations_per_second', label: 'operations' }, { column: 'read_bytes_per_second', label: 'read' },
        { column: 'written_bytes_per_second', label: 'written' },
      { column: 'fullest_ratio', label: 'fullest file system' }],
    spark: { label: 'read and written', sql: rise('disk_stat', 'device',
      [['written_bytes_total', 'written_bytes_per_second'], ['read_bytes_total', 'read_bytes_per_second']], ' and not is_partition') },
    empty: 'No disk activity in the last minute.',
  },
];

/** Where the proxies' request time went, by subtraction. */
export const TIME_SQL = `with part as (
  select tier, greatest(${TO_CLIENT}, 0) as client, queue_seconds as queue,
    upstream_connect_seconds as connect, greatest(${IN_APP}, 0) as app,
    greatest(upstream_response_seconds - upstream_header_seconds, 0) as body
  from proxy_request where duration_seconds is not null and ${LAST_MINUTE}
)
select tier, count(*) as requests,
${['client', 'queue', 'connect', 'app', 'body'].map(c => `  avg(coalesce(${c}, 0)) as ${c}_seconds, ${p(0.95,
  c)} as ${c}_seconds_p95`).join(',\n')}
from part
-- Never two clocks in one mean: the edge's where there is one, for it sees all that the proxies behind it do.
where tier = (select min(tier) from part)
group by tier`;

/** The newest state of every listener. A socket's first sample may not know its process yet, so the newest name that is known holds. */
export const LISTENER_SQL = `with listener_now as (
  select host, netns, server_address, server_port,
    last_value(process_name order by ts) filter (where process_name is not null) as process_name,
    max(process_count) as process_count,
    last_value(accept_queue_length order by ts) as accept_queue_length,
    last_value(accept_queue_limit order by ts) as accept_queue_limit,
    max(accept_queue_length) as accept_queue_length_max,
    max(accept_queue_length * 1.0 / greatest(accept_queue_limit, 1)) as fullest_ratio
  from listener where ts > now() - interval '15 minutes'$scope
  group by host, netns, server_address, server_port
  having max(ts) > now() - interval '15 seconds'
)
select case
    when process_name in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy', 'traefik', 'caddy') then 'proxy'
    when process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'mongod', 'memcached') then 'db'
    else 'app' end as tier, *
from listener_now
order by fullest_ratio desc, server_port, server_address`;
