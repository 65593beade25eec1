// @ts-check
// The tiers of the overview as data: what each shows and by which query. One tier is one entry.
// `$scope` in a query becomes the condition on the host; a column's unit follows from its name.

/** @typedef {{column: string, label: string, per?: string}} Figure */
/** @typedef {{id: string, title: string, of: string, tiers: string[], queues?: string, sql: string, figures: Figure[], spark?: {sql: string, label: string}, empty: string, isWide?: boolean}} Tier */

const LAST_MINUTE = "ts > now() - interval '1 minute'$scope";
const LAST_QUARTER = "ts > now() - interval '15 minutes'$scope";
const BIN = "date_bin(interval '15 seconds', ts)";
const TO_CLIENT = 'duration_seconds - coalesce(upstream_response_seconds, upstream_header_seconds, 0) - coalesce(queue_seconds, 0)';
const IN_APP = 'upstream_header_seconds - coalesce(upstream_connect_seconds, 0)';
const p = (share, expression) => `approx_percentile_cont(${expression}, ${share})`;

/** Rise per second of a counter by 15 s, summed over `keys`. */
const rise = (table, keys, columns, extra = '') => `with sample as (
  select ${BIN} as bin, host, ${keys}, ${columns.map(([c]) => `max(${c}) as ${c}`).join(', ')}
  from ${table} where ${LAST_QUARTER}${extra}
  group by bin, host, ${keys}
), step as (
  select bin, ${columns.map(([c]) => `${c} - lag(${c}) over (partition by host, ${keys} order by bin) as ${c}`).join(', ')} from sample
)
select bin as ts, ${columns.map(([c, name]) => `sum(greatest(${c}, 0)) / 15.0 as ${name}`).join(', ')}
from step group by bin order by bin`;

/** @type {Tier[]} */
export const TIERS = [
  {
    id: 'client', title: 'Client', of: 'the visitor and the way to him', tiers: ['client'],
    sql: `select ${p(0.95, TO_CLIENT)} as p95_seconds,
  ${p(0.5, TO_CLIENT)} as p50_seconds,
  count(distinct client_address) as clients,
  avg(case when http_response_status_code = 499 or termination_state like 'C%' then 1.0 else 0.0 end) as aborted_ratio,
  avg(case when http_response_status_code between 400 and 498 then 1.0 else 0.0 end) as refused_ratio
from request where tier in ('edge', 'proxy') and ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'p95_seconds', label: 'sending to clients, p95' }, { column: 'p50_seconds', label: 'p50' }, { column: 'clients', label: 'addresses' },
      { column: 'aborted_ratio', label: 'given up by the client' }, { column: 'refused_ratio', label: 'answered 4xx' }],
    spark: { label: 'sending to clients, p95', sql: `select ${BIN} as ts, ${p(0.95, TO_CLIENT)} as p95_seconds
from request where tier in ('edge', 'proxy') and ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No request was logged in the last minute.',
  },
  {
    id: 'proxy', title: 'Edge and proxy', of: 'nginx, HAProxy, Apache', tiers: ['edge', 'proxy'], queues: 'proxy',
    sql: `select count(*) / 60.0 as requests_per_second,
  ${p(0.5, 'duration_seconds')} as p50_seconds,
  ${p(0.95, 'duration_seconds')} as p95_seconds,
  ${p(0.95, 'queue_seconds')} as queue_seconds_p95,
  avg(case when http_response_status_code >= 500 then 1.0 else 0.0 end) as error_ratio,
  sum(coalesce(response_bytes, response_body_bytes)) / 60.0 as sent_bytes_per_second
from request where tier in ('edge', 'proxy') and ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'requests_per_second', label: 'requests' }, { column: 'p50_seconds', label: 'whole request, p50' }, { column: 'p95_seconds', label: 'p95' },
      { column: 'queue_seconds_p95', label: 'own queue, p95' }, { column: 'error_ratio', label: 'answered 5xx' }, { column: 'sent_bytes_per_second', label: 'sent' }],
    spark: { label: 'requests and 5xx', sql: `select ${BIN} as ts, count(*) / 15.0 as requests_per_second,
  count(*) filter (where http_response_status_code >= 500) / 15.0 as errors_per_second
from request where tier in ('edge', 'proxy') and ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No request was logged in the last minute.',
  },
  {
    id: 'app', title: 'Application', of: 'what the proxy waits for', tiers: ['app'], queues: 'app',
    sql: `select ${p(0.95, IN_APP)} as p95_seconds,
  ${p(0.5, IN_APP)} as p50_seconds,
  ${p(0.95, 'upstream_connect_seconds')} as connect_seconds_p95,
  count(*) / 60.0 as requests_per_second,
  avg(case when upstream_status_code >= 500 then 1.0 else 0.0 end) as error_ratio,
  count(distinct upstream_address) as upstreams
from request where tier in ('edge', 'proxy') and upstream_header_seconds is not null and ${LAST_MINUTE}
having count(*) > 0`,
    figures: [{ column: 'p95_seconds', label: 'first byte, p95' }, { column: 'p50_seconds', label: 'p50' }, { column: 'connect_seconds_p95', label: 'connecting, p95' },
      { column: 'requests_per_second', label: 'passed on' }, { column: 'error_ratio', label: 'failed with 5xx' }, { column: 'upstreams', label: 'upstreams' }],
    spark: { label: 'first byte, p95', sql: `select ${BIN} as ts, ${p(0.95, IN_APP)} as p95_seconds
from request where tier in ('edge', 'proxy') and upstream_header_seconds is not null and ${LAST_QUARTER}
group by 1 order by 1` },
    empty: 'No request was passed on to an application in the last minute.',
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
    figures: [{ column: 'busy_ratio', label: 'busy' }, { column: 'device', label: 'device' }, { column: 'await_seconds', label: 'per operation' },
      { column: 'operations_per_second', label: 'operations' }, { column: 'read_bytes_per_second', label: 'read' }, { column: 'written_bytes_per_second', label: 'written' },
      { column: 'fullest_ratio', label: 'fullest file system' }],
    spark: { label: 'read and written', sql: rise('disk_stat', 'device', [['written_bytes_total', 'written_bytes_per_second'], ['read_bytes_total', 'read_bytes_per_second']], ' and not is_partition') },
    empty: 'No disk did anything in the last minute.',
  },
  {
    id: 'kernel', title: 'Kernel and network', of: 'TCP, packets, devices', tiers: ['kernel', 'wire'], isWide: true,
    sql: `with rise as (
  select coalesce(sum(increase) filter (where counter = 'ListenOverflows'), 0) as overflows,
    coalesce(sum(increase) filter (where counter = 'ListenDrops'), 0) as drops,
    coalesce(sum(increase) filter (where counter = 'SyncookiesSent'), 0) as cookies,
    coalesce(sum(increase) filter (where counter = 'RetransSegs'), 0) * 1.0
      / nullif(sum(increase) filter (where counter = 'OutSegs'), 0) as resent_ratio
  from tcp_stat where ${LAST_MINUTE} having count(*) > 0
), socket as (
  select sum(tcp_established) as established, sum(tcp_time_wait) as time_wait from (
    select host, netns, last_value(tcp_established order by ts) as tcp_established, last_value(tcp_time_wait order by ts) as tcp_time_wait
    from sock_stat where ${LAST_MINUTE} group by host, netns)
), packet as (
  select sum(drops) as softnet_drops from (
    select host, cpu, max(drops_total) - min(drops_total) as drops from softnet_stat where ts > now() - interval '2 minutes'$scope group by host, cpu)
), device as (
  select sum(rx) / 60.0 as received_bytes_per_second, sum(tx) / 60.0 as sent_bytes_per_second from (
    select host, netns, device, max(rx_bytes_total) - min(rx_bytes_total) as rx, max(tx_bytes_total) - min(tx_bytes_total) as tx
    from net_dev where ${LAST_MINUTE} group by host, netns, device)
)
select * from rise cross join socket cross join packet cross join device`,
    figures: [{ column: 'overflows', label: 'accept queue overflows' }, { column: 'drops', label: 'SYNs dropped at listeners' }, { column: 'cookies', label: 'SYN cookies sent' },
      { column: 'resent_ratio', label: 'segments sent again' }, { column: 'softnet_drops', label: 'packets dropped before TCP' }, { column: 'established', label: 'established' },
      { column: 'time_wait', label: 'in TIME_WAIT' }, { column: 'received_bytes_per_second', label: 'received' }, { column: 'sent_bytes_per_second', label: 'sent' }],
    spark: { label: 'received and sent, all devices', sql: rise('net_dev', 'netns, device', [['rx_bytes_total', 'received_bytes_per_second'], ['tx_bytes_total', 'sent_bytes_per_second']]) },
    empty: 'No kernel counters in the last minute.',
  },
  {
    id: 'host', title: 'Host', of: 'processor and memory', tiers: ['host'], isWide: true,
    sql: `with cpu as (
  select max(user_seconds_total) - min(user_seconds_total) as user, max(system_seconds_total) - min(system_seconds_total) as system,
    max(iowait_seconds_total) - min(iowait_seconds_total) as iowait, max(steal_seconds_total) - min(steal_seconds_total) as steal,
    max(idle_seconds_total) - min(idle_seconds_total) as idle,
    max(irq_seconds_total + softirq_seconds_total) - min(irq_seconds_total + softirq_seconds_total) as irq,
    max(processes_running) as runnable_max, max(cpu_count) as processors
  from cpu_stat where cpu = 'all' and ${LAST_MINUTE} group by host
), share as (
  select avg((user + system + irq) / nullif(user + system + irq + iowait + steal + idle, 0)) as busy_ratio,
    avg(iowait / nullif(user + system + irq + iowait + steal + idle, 0)) as iowait_ratio,
    avg(steal / nullif(user + system + irq + iowait + steal + idle, 0)) as steal_ratio,
    max(runnable_max) as runnable_max, sum(processors) as processors
  from cpu having count(*) > 0
), memory as (
  select min(available_bytes) as available_bytes, min(available_bytes * 1.0 / size_bytes) as available_ratio from mem_stat where ${LAST_MINUTE}
), stall as (
  select max(some_avg10_ratio) filter (where resource = 'cpu') as cpu_stall_ratio, max(some_avg10_ratio) filter (where resource = 'memory') as memory_stall_ratio,
    max(some_avg10_ratio) filter (where resource = 'io') as io_stall_ratio
  from pressure where cgroup = '/' and ${LAST_MINUTE}
)
select * from share cross join memory cross join stall`,
    figures: [{ column: 'busy_ratio', label: 'processor busy' }, { column: 'steal_ratio', label: 'stolen by the hypervisor' }, { column: 'iowait_ratio', label: 'waiting for I/O' },
      { column: 'runnable_max', label: 'most runnable threads' }, { column: 'processors', label: 'processors' }, { column: 'available_bytes', label: 'memory available' },
      { column: 'cpu_stall_ratio', label: 'stalled on processor' }, { column: 'memory_stall_ratio', label: 'stalled on memory' }, { column: 'io_stall_ratio', label: 'stalled on I/O' }],
    spark: { label: 'busy and stolen processors', sql: `with sample as (
  select ${BIN} as bin, host, max(user_seconds_total + system_seconds_total) as busy, max(steal_seconds_total) as steal
  from cpu_stat where cpu = 'all' and ${LAST_QUARTER} group by bin, host
), step as (
  select bin, busy - lag(busy) over (partition by host order by bin) as busy, steal - lag(steal) over (partition by host order by bin) as steal from sample
)
select bin as ts, sum(greatest(busy, 0)) / 15.0 as busy_processors, sum(greatest(steal, 0)) / 15.0 as stolen_processors
from step group by bin order by bin` },
    empty: 'No processor sample in the last minute.',
  },
  {
    id: 'weir', title: 'Logs and weir', of: 'what is read, and how well', tiers: ['log', 'weir'], isWide: true,
    sql: `with line as (
  select 'request' as kind, ts from request where ${LAST_MINUTE}
  union all select 'log', ts from log where ${LAST_MINUTE}
  union all select 'reject', ts from reject where ${LAST_MINUTE}
), run as (
  select sum(failures) as failures, sum(cpu_seconds) / 60.0 as cpu_ratio, count(distinct collector) as collectors from collector_run where ${LAST_MINUTE}
)
select count(*) / 60.0 as lines_per_second, count(*) filter (where kind = 'request') as requests, count(*) filter (where kind = 'log') as logs,
  count(*) filter (where kind = 'reject') as rejects, max(collectors) as collectors, max(failures) as failures, max(cpu_ratio) as cpu_ratio
from line cross join run`,
    figures: [{ column: 'lines_per_second', label: 'lines' }, { column: 'requests', label: 'requests' }, { column: 'logs', label: 'log rows' }, { column: 'rejects', label: 'not understood' },
      { column: 'collectors', label: 'collectors' }, { column: 'failures', label: 'failed runs' }, { column: 'cpu_ratio', label: 'of one processor, collecting' }],
    spark: { label: 'lines read', sql: `select ts, sum(n) / 15.0 as lines_per_second from (
  select ${BIN} as ts, count(*) as n from request where ${LAST_QUARTER} group by 1
  union all select ${BIN}, count(*) from log where ${LAST_QUARTER} group by 1
  union all select ${BIN}, count(*) from reject where ${LAST_QUARTER} group by 1)
group by ts order by ts` },
    empty: 'No log line was read in the last minute.',
  },
];

/** Where the proxies' request time went, by subtraction. */
export const TIME_SQL = `with part as (
  select greatest(${TO_CLIENT}, 0) as client, queue_seconds as queue,
    upstream_connect_seconds as connect, greatest(${IN_APP}, 0) as app,
    greatest(upstream_response_seconds - upstream_header_seconds, 0) as body
  from request where tier in ('edge', 'proxy') and duration_seconds is not null and ${LAST_MINUTE}
)
select count(*) as requests,
${['client', 'queue', 'connect', 'app', 'body'].map(c => `  avg(coalesce(${c}, 0)) as ${c}_seconds, ${p(0.95, c)} as ${c}_seconds_p95`).join(',\n')}
from part having count(*) > 0`;

/** The newest state of every listener. */
export const LISTENER_SQL = `select case
    when process_name in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy', 'traefik', 'caddy') then 'proxy'
    when process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'mongod', 'memcached') then 'db'
    else 'app' end as tier,
  host, netns, server_address, server_port, process_name, max(process_count) as process_count,
  last_value(accept_queue_length order by ts) as accept_queue_length,
  last_value(accept_queue_limit order by ts) as accept_queue_limit,
  max(accept_queue_length) as accept_queue_length_max,
  max(accept_queue_length * 1.0 / greatest(accept_queue_limit, 1)) as fullest_ratio,
  count(distinct socket_inode) as sockets
from listener where ${LAST_QUARTER}
group by host, netns, server_address, server_port, process_name
having max(ts) > now() - interval '15 seconds'
order by fullest_ratio desc, server_port, server_address`;

/** A query for one host or all. @param {string} sql @param {string} host */
export const scoped = (sql, host) => sql.replaceAll('$scope', host ? ` and host = '${host.replaceAll("'", "''")}'` : '');
