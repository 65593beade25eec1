// @ts-check
// What lies below all tiers, as data: kernel and network, host, and weir's own reading of logs.
import { BIN, LAST_MINUTE, LAST_QUARTER, rise } from './tier_sql.js';

/** @type {import('./tiers.js').Tier[]} */
export const TIERS_BELOW = [
  {
    id: 'kernel', title: 'Kernel and network', of: 'TCP, packets, devices', tiers: ['kernel', 'wire'],
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
    figures: [{ column: 'overflows', label: 'accept queue overflows' }, { column: 'drops', label: 'SYNs dropped at listeners' },
      { column: 'cookies', label: 'SYN cookies sent' },
      { column: 'resent_ratio', label: 'segments retransmitted' }, { column: 'softnet_drops', label: 'packets dropped before TCP' },
        { column: 'established', label: 'established' },
      { column: 'time_wait', label: 'in TIME_WAIT' }, { column: 'received_bytes_per_second', label: 'received' },
        { column: 'sent_bytes_per_second', label: 'sent' }],
    spark: { label: 'received and sent, all devices', sql: rise('net_dev', 'netns, device',
      [['rx_bytes_total', 'received_bytes_per_second'], ['tx_bytes_total', 'sent_bytes_per_second']]) },
    empty: 'No kernel counters in the last minute.',
  },
  {
    id: 'host', title: 'Host', of: 'CPU and memory', tiers: ['host'],
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
    figures: [{ column: 'busy_ratio', label: 'CPU busy' }, { column: 'steal_ratio', label: 'CPU stolen' },
      { column: 'iowait_ratio', label: 'waiting for I/O' },
      { column: 'runnable_max', label: 'most runnable threads' }, { column: 'processors', label: 'processors' },
        { column: 'available_bytes', label: 'available memory' },
      { column: 'cpu_stall_ratio', label: 'stalled on CPU' }, { column: 'memory_stall_ratio', label: 'stalled on memory' },
        { column: 'io_stall_ratio', label: 'stalled on I/O' }],
    spark: { label: 'busy and stolen CPUs', sql: rise('cpu_stat', 'cpu',
      [['user_seconds_total + system_seconds_total', 'busy_processors'],
        ['steal_seconds_total', 'stolen_processors']], " and cpu = 'all'") },
    empty: 'No CPU samples in the last minute.',
  },
  {
    id: 'weir', title: 'Logs and weir', of: 'what weir reads', tiers: ['log', 'weir'],
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
    figures: [{ column: 'lines_per_second', label: 'lines' }, { column: 'requests', label: 'requests' },
      { column: 'logs', label: 'log rows' }, { column: 'rejects', label: 'unparsed' },
      { column: 'collectors', label: 'collectors' }, { column: 'failures', label: 'failed runs' },
        { column: 'cpu_ratio', label: "collectors' processor" }],
    spark: { label: 'lines read', sql: `select ts, sum(n) / 15.0 as lines_per_second from (
  select ${BIN} as ts, count(*) as n from request where ${LAST_QUARTER} group by 1
  union all select ${BIN}, count(*) from log where ${LAST_QUARTER} group by 1
  union all select ${BIN}, count(*) from reject where ${LAST_QUARTER} group by 1)
group by ts order by ts` },
    empty: 'No log lines in the last minute.',
  },
];
