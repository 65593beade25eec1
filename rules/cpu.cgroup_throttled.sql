/*---
id = "cpu.cgroup_throttled"
title = "Service throttled by its CPU quota"
tier = "host"
class = "mail"
for = "0s"
every = "2s"
clear = "60s"
key = ["cgroup"]
needs = ["cgroup_stat", "listener", "request"]
when = "select host from cgroup_stat where cpu_throttled_periods_total > 0 and ts > $now - interval '60 seconds' and ts <= $now group by host, cgroup having max(cpu_throttled_periods_total) > min(cpu_throttled_periods_total) + 10 limit 1"
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.slow", "app.slow_outlier", "app.slow_quiet",
  "app.slow_requests_logged", "app.slow_url", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "db.connections_exhausted", "db.not_answering",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "{process} ({cgroup})"
summary = "{process} on {host} is throttled in {throttled_ratio:%} of its CPU periods: {throttled} of {periods} in the last minute, {throttled_seconds:.1} s in total, quota about {quota_cpus:.2} CPUs; {suffers}"
why = "A cgroup with a quota may use a fixed amount of CPU time per period (100 ms). Once it is used up, all its threads stop until the next period. The host looks idle meanwhile, and every request in flight takes up to a period longer."
look_at = "cgroup_stat: rise of cpu_seconds_total against the quota. Many threads use up the quota in a few milliseconds and then wait: does the program start one per CPU of the host (GOMAXPROCS, JVM, worker counts)? What else runs in the same cgroup?"
silent_when = "At most the threshold of throttled periods (10 % is a default: `weir thresholds cpu.cgroup_throttled` gives the value for this fleet), fewer than 30 periods, or less than 2 s throttled in a minute. Only cgroups with a listening socket count: throttling a batch job is what its quota is for. It is a page when the proxies' p95 on that host is 2× what it was three or ten minutes before, and over 50 ms."
fix = "Raise or remove the quota of {cgroup}: systemd `systemctl set-property UNIT CPUQuota=` (empty: none) or a higher percentage, Docker `--cpus`, Kubernetes `resources.limits.cpu`; protect the neighbours by weight instead (`CPUWeight=`, `requests.cpu`). Or use fewer threads: at most as many workers as CPUs in the quota. It takes effect at once, without a restart. Check: cpu_throttled_periods_total stops rising, p95 falls."
source = "fault lab F28 (49 of 52 periods, p50 19 to 100 ms, host idle); kernel Documentation/scheduler/sched-bwc.rst"
[chart]
title = "Throttled time in total"
unit = "s"
sql = """
select ts, cpu_throttled_seconds_total as stopped from cgroup_stat
where host = {host} and cgroup = {cgroup} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
[threshold]
value = 0.1
unit = "ratio"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '1 minute', ts) as slice, host, cgroup as subject,
    cast(max(cpu_throttled_periods_total) - min(cpu_throttled_periods_total) as double) / (max(cpu_periods_total) - min(cpu_periods_total)) as value
  from cgroup_stat
  where ts >= $from and ts < $to and cpu_periods_total is not null
  group by 1, 2, 3
  having max(cpu_periods_total) - min(cpu_periods_total) >= 50
) slices
group by 1, 2, 3"""
---*/
with groups as (
  select host, cgroup,
    max(cpu_periods_total) - min(cpu_periods_total) as periods,
    max(cpu_throttled_periods_total) - min(cpu_throttled_periods_total) as throttled,
    max(cpu_throttled_seconds_total) - min(cpu_throttled_seconds_total) as throttled_seconds,
    max(cpu_seconds_total) - min(cpu_seconds_total) as used_seconds
  from cgroup_stat
  where ts > $now - interval '60 seconds' and ts <= $now and cpu_periods_total is not null
  group by host, cgroup
  having max(cpu_throttled_periods_total) - min(cpu_throttled_periods_total) > $threshold * (max(cpu_periods_total) - min(cpu_periods_total))
    and max(cpu_periods_total) - min(cpu_periods_total) >= 30
    and max(cpu_throttled_seconds_total) - min(cpu_throttled_seconds_total) >= 2
),
owners as (
  select host, cgroup, max(process_name) as process
  from listener
  where ts > $now - interval '30 seconds' and ts <= $now and cgroup is not null
  group by host, cgroup
),
latency as (
  select host, percentile(duration_seconds, 0.95) as p95, count(*) as n
  from request
  where tier in ('proxy', 'edge') and duration_seconds is not null and ts > $now - interval '20 seconds' and ts <= $now
  group by host
),
past_rows as (
  select 1 as slice, host, duration_seconds from request
  where tier in ('proxy', 'edge') and duration_seconds is not null and ts > $now - interval '200 seconds' and ts <= $now - interval '180 seconds'
  union all
  select 2 as slice, host, duration_seconds from request
  where tier in ('proxy', 'edge') and duration_seconds is not null and ts > $now - interval '620 seconds' and ts <= $now - interval '600 seconds'
),
past_slices as (
  select slice, host, percentile(duration_seconds, 0.95) as p95 from past_rows group by slice, host having count(*) >= 20
),
past as (
  select host, min(p95) as p95 from past_slices group by host
),
joined as (
  select g.*, o.process, l.p95, p.p95 as past_p95,
    coalesce(l.n >= 20 and l.p95 >= 0.05 and l.p95 >= 2 * p.p95, false) as is_slower
  from groups g
  join owners o on o.host = g.host and o.cgroup = g.cgroup
  left join latency l on l.host = g.host
  left join past p on p.host = g.host
)
select host, cgroup, coalesce(process, 'a service') as process, periods, throttled, throttled_seconds, p95, past_p95,
  cast(throttled as double) / periods as throttled_ratio, used_seconds * 10.0 / periods as quota_cpus,
  case when is_slower then concat('request p95 of this host''s proxies rose from ', cast(round(past_p95 * 1000) as bigint), ' to ', cast(round(p95 * 1000) as bigint), ' ms')
       else 'requests of this host''s proxies are not slower' end as suffers,
  case when is_slower then 'page' else 'mail' end as class
from joined
