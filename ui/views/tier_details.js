// @ts-check
// The questions of each tier's page as data. A new question is one entry: a title and a query.
import { BIN, IN_APP, LAST_QUARTER, TO_CLIENT, p, rise } from './tier_sql.js';

/** @typedef {{title: string, sql: string, isChart?: boolean, over?: string, empty?: string}} Detail */

const RECENT = "ts > now() - interval '15 minutes'$scope";
const SPAN = "(date_part('epoch', max(ts)) - date_part('epoch', min(ts)))";
const ERRORS = "avg(case when http_response_status_code >= 500 then 1.0 else 0.0 end) as error_ratio";
const risen = column => `max(${column}) - min(${column})`;

/** Requests grouped by `columns`, most first. */
const by = (columns, figures, where = '') => `select ${columns}, count(*) as requests, ${figures}
from proxy_request where ${RECENT}${where}
group by ${columns} order by requests desc limit 100`;

const WHOLE = `${p(0.5, 'duration_seconds')} as p50_seconds, ${p(0.95, 'duration_seconds')} as p95_seconds, max(duration_seconds) as max_seconds`;
const APP = `${p(0.5, IN_APP)} as p50_seconds, ${p(0.95,
  IN_APP)} as p95_seconds, ${p(0.95, 'upstream_connect_seconds')} as connect_seconds_p95`;
const BEHIND = ' and upstream_header_seconds is not null';

/** @type {Record<string, Detail[]>} */
export const DETAILS = {
  client: [
    { title: 'Sending to clients', isChart: true, sql: `select ${BIN} as ts, ${p(0.5, TO_CLIENT)} as p50_seconds, ${p(0.95,
      TO_CLIENT)} as p95_seconds
from proxy_request where ${LAST_QUARTER} group by 1 order by 1` },
    { title: 'Responses by status class', isChart: true,
      sql: `select ${BIN} as ts, concat(cast(http_response_status_code / 100 as varchar), 'xx') as status, count(*) / 15.0 as requests_per_second
from proxy_request where http_response_status_code is not null and ${LAST_QUARTER} group by 1, 2 order by 1, 2` },
    { title: 'By client address', sql: by('client_address', `${p(0.95,
      TO_CLIENT)} as p95_seconds, sum(response_bytes) as sent_bytes, ${ERRORS}`) },
    { title: 'By user agent', sql: by('user_agent_original', `${p(0.95, TO_CLIENT)} as p95_seconds, ${ERRORS}`) },
  ],
  proxy: [
    { title: 'Total request time', isChart: true,
      sql: `select ${BIN} as ts, ${p(0.5, 'duration_seconds')} as p50_seconds, ${p(0.95, 'duration_seconds')} as p95_seconds, ${p(0.99, 'duration_seconds')} as p99_seconds
from proxy_request where ${LAST_QUARTER} group by 1 order by 1` },
    { title: 'Requests by server name', isChart: true, sql: `select ${BIN} as ts, server_address, count(*) / 15.0 as requests_per_second
from proxy_request where ${LAST_QUARTER} group by 1, 2 order by 1, 2` },
    { title: 'By server name', sql: by('program, server_address, server_port', `${WHOLE}, ${ERRORS}`) },
    { title: 'By path', sql: by('url_path', `${WHOLE}, ${ERRORS}`) },
  ],
  app: [
    { title: 'First byte by upstream, p95', isChart: true, sql: `select ${BIN} as ts, upstream_address, ${p(0.95, IN_APP)} as p95_seconds
from proxy_request where ${LAST_QUARTER}${BEHIND} group by 1, 2 order by 1, 2` },
    { title: 'Connect and first byte, p95', isChart: true,
      sql: `select ${BIN} as ts, ${p(0.95, 'upstream_connect_seconds')} as connect_seconds, ${p(0.95, IN_APP)} as first_byte_seconds
from proxy_request where ${LAST_QUARTER}${BEHIND} group by 1 order by 1` },
    { title: 'By upstream',
      sql: by('upstream_address', `${APP}, avg(case when upstream_status_code >= 500 then 1.0 else 0.0 end) as error_ratio`, BEHIND) },
    { title: 'By path', sql: by('url_path', `${APP}, ${ERRORS}`, BEHIND) },
  ],
  db: [
    { title: 'Accept queues of databases', isChart: true, empty: 'No database listens on this host.',
      sql: `select ${BIN} as ts, process_name, max(accept_queue_length) as accept_queue_length
from listener where process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'mongod', 'memcached') and ${LAST_QUARTER} group by 1, 2 order by 1, 2` },
    { title: 'Database logs', empty: 'No database log lines.', sql: `select ts, host, program, severity, body from log
where program in ('postgres', 'postgresql', 'mysqld', 'mariadbd', 'redis', 'redis-server', 'mongod') and ${RECENT} order by ts desc limit 100` },
  ],
  disk: [
    { title: 'Read and written', isChart: true, sql: rise('disk_stat', 'device',
      [['read_bytes_total', 'read_bytes_per_second'], ['written_bytes_total', 'written_bytes_per_second']], ' and not is_partition') },
    { title: 'Devices', sql: `select host, device, ${risen('busy_seconds_total')} as busy_seconds, (${risen('busy_seconds_total')}) / nullif(${SPAN}, 0) as busy_ratio,
  (max(read_seconds_total + write_seconds_total) - min(read_seconds_total + write_seconds_total)) / nullif(max(reads_total + writes_total) - min(reads_total + writes_total), 0) as await_seconds,
  ${risen('reads_total')} as reads, ${risen('writes_total')} as writes, ${risen('read_bytes_total')} as read_bytes, ${risen('written_bytes_total')} as written_bytes, max(in_flight) as in_flight_max
from disk_stat where not is_partition and ${RECENT} group by host, device order by busy_seconds desc` },
    { title: 'File systems', over: 'newest',
      sql: `select host, mount_point, device, filesystem_type, last_value(1.0 - available_bytes * 1.0 / nullif(size_bytes, 0) order by ts) as used_ratio,
  last_value(available_bytes order by ts) as available_bytes, last_value(size_bytes order by ts) as size_bytes, last_value(inodes_free order by ts) as inodes_free
from filesystem where ${RECENT} group by host, mount_point, device, filesystem_type order by used_ratio desc nulls last` },
  ],
  kernel: [
    { title: 'Drops, overflows, retransmissions', isChart: true, empty: 'No counter rose.',
      sql: `select ${BIN} as ts, counter, sum(increase) as increase from tcp_stat
where counter in ('ListenOverflows', 'ListenDrops', 'TCPTimeouts', 'RetransSegs', 'TCPBacklogDrop', 'TCPReqQFullDrop') and ${LAST_QUARTER}
group by 1, 2 order by 1, 2` },
    { title: 'Sockets', isChart: true,
      sql: `select ${BIN} as ts, max(tcp_established) as established, max(tcp_time_wait) as time_wait, max(tcp_orphan) as orphan from sock_stat where ${LAST_QUARTER} group by 1 order by 1` },
    { title: 'Counters that rose',
      sql: `select netns, protocol, counter, sum(increase) as increase, max(increase) as increase_max, max(value) as value
from tcp_stat where ${RECENT} group by netns, protocol, counter having sum(increase) > 0
order by case when counter like '%Drop%' or counter like '%Overflow%' or counter like '%Fail%' or counter like '%Timeout%' or counter like '%Retrans%' or counter like '%Loss%' then 0 else 1 end, increase desc limit 300` },
    { title: 'Network devices',
      sql: `select host, netns, device, ${risen('rx_bytes_total')} as rx_bytes, ${risen('tx_bytes_total')} as tx_bytes, ${risen('rx_packets_total')} as rx_packets, ${risen('tx_packets_total')} as tx_packets,
  ${risen('rx_drops_total')} as rx_drops, ${risen('tx_drops_total')} as tx_drops, ${risen('rx_errors_total')} as rx_errors
from net_dev where ${RECENT} group by host, netns, device order by rx_bytes desc` },
    { title: 'Kernel messages', over: 'last 24 hours',
      sql: `select ts, host, severity, kind, subject, body from kmsg where ts > now() - interval '24 hours'$scope order by ts desc limit 200` },
    { title: 'Packets per CPU',
      sql: `select host, cpu, ${risen('packets_total')} as packets, ${risen('drops_total')} as drops, ${risen('time_squeezes_total')} as time_squeezes
from softnet_stat where ${RECENT} group by host, cpu order by packets desc` },
  ],
  host: [
    { title: 'CPU time', isChart: true, sql: rise('cpu_stat', 'cpu',
      [['user_seconds_total', 'user_processors'], ['system_seconds_total', 'system_processors'],
        ['iowait_seconds_total', 'iowait_processors'], ['steal_seconds_total', 'steal_processors']], " and cpu = 'all'") },
    { title: 'Stalls (PSI)', isChart: true,
      sql: `select ${BIN} as ts, resource, max(some_avg10_ratio) as some_ratio from pressure where cgroup = '/' and ${LAST_QUARTER} group by 1, 2 order by 1, 2` },
    { title: 'Memory', isChart: true,
      sql: `select ${BIN} as ts, min(available_bytes) as available_bytes, max(cached_bytes) as cached_bytes, max(dirty_bytes) as dirty_bytes from mem_stat where ${LAST_QUARTER} group by 1 order by 1` },
    { title: 'Cgroups', sql: `select host, cgroup, ${risen('cpu_seconds_total')} as cpu_seconds, ${risen('cpu_throttled_seconds_total')} as throttled_seconds,
  max(memory_used_bytes) as memory_used_bytes, max(memory_limit_bytes) as memory_limit_bytes, ${risen('oom_kills_total')} as oom_kills
from cgroup_stat where ${RECENT} group by host, cgroup order by cpu_seconds desc nulls last` },
    { title: 'This machine type', over: 'newest',
      sql: `select host, kernel_version, os_name, architecture, cpu_count, memory_bytes, boot_ts, agent_version from host_info where ts > now() - interval '2 hours'$scope order by ts desc limit 20` },
  ],
  weir: [
    { title: 'Collectors',
      sql: `select host, collector, sum(runs) as runs, sum(failures) as failures, sum(rows) as rows, sum(duration_seconds) / nullif(sum(runs), 0) as mean_seconds, sum(cpu_seconds) as cpu_seconds, max(error) as error
from collector_run where ${RECENT} group by host, collector order by failures desc, cpu_seconds desc nulls last` },
    { title: 'Unparsed lines', empty: 'All lines were parsed.',
      sql: `select source, parser, reason, count(*) as lines, max(ts) as last_ts, max(detail) as detail from reject where ${RECENT} group by source, parser, reason order by lines desc limit 100` },
    { title: 'Repaired lines', empty: 'No repaired lines.', sql: `select source, repair, count(*) as lines from (
  select source, repair from request where repair is not null and ${RECENT}
  union all select source, repair from log where repair is not null and ${RECENT})
group by source, repair order by lines desc` },
    { title: 'Lines by file', isChart: true, sql: `select ts, source, sum(n) / 15.0 as lines_per_second from (
  select ${BIN} as ts, source, count(*) as n from request where ${LAST_QUARTER} group by 1, 2
  union all select ${BIN}, source, count(*) from log where ${LAST_QUARTER} group by 1, 2)
group by ts, source order by ts` },
  ],
};
