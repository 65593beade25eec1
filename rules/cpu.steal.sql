/*---
id = "cpu.steal"
title = "CPU time stolen by the hypervisor"
tier = "host"
class = "mail"
for = "0s"
every = "10s"
clear = "2m"
key = []
needs = ["cpu_stat"]
when = [
  "select 1 from cpu_stat where cpu = 'all' and steal_seconds_total > 0 and ts > $now - interval '10 minutes' and ts <= $now limit 1",
  "select host from cpu_stat where cpu = 'all' and ts > $now - interval '10 minutes' and ts <= $now group by host having max(steal_seconds_total) > min(steal_seconds_total) + 0.5 limit 1",
]
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.slow", "app.slow_outlier", "app.slow_quiet",
  "app.slow_requests_logged", "app.slow_url", "client.aborts_499", "cpu.saturated", "cpu.stalled",
  "db.connections_exhausted", "db.not_answering", "dns.resolver_slow", "proxy.bad_gateway",
  "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "CPUs of {host}"
summary = "{host}: the hypervisor stole {steal_ratio:%} of CPU time over {span_seconds:duration}"
why = "The virtual machine was ready to run, but its host ran another guest. Everything on it is slower, and usage shown without steal looks harmless, so the load is misread."
look_at = "Steal over the day (chart): at fixed hours it is a neighbour, after long load it is a used-up CPU credit of a burstable instance (CPUCreditBalance at the provider)."
silent_when = "Below 5 % over 10 minutes. With less than 9 minutes of samples it is only a note, and only above 20 %. Physical machines have no steal."
fix = "Move the machine (stop and start puts it on another host), or take a larger or non-burstable instance type. Nothing inside the machine can fix it; do not reduce its own work first, measure again after the move. Check: steal below 5 % at the same hour."
source = "field notes A (the load was misread for lack of steal); /proc/stat field 8, proc(5)"
[chart]
title = "Stolen CPU time, seconds since boot"
unit = "s"
sql = """
select ts, steal_seconds_total as steal from cpu_stat
where cpu = 'all' and host = {host} and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with steps as (
  select host, ts,
    steal_seconds_total - lag(steal_seconds_total) over w as stolen,
    (user_seconds_total + system_seconds_total + idle_seconds_total + iowait_seconds_total
      + irq_seconds_total + softirq_seconds_total + steal_seconds_total)
    - lag(user_seconds_total + system_seconds_total + idle_seconds_total + iowait_seconds_total
      + irq_seconds_total + softirq_seconds_total + steal_seconds_total) over w as passed
  from cpu_stat
  where cpu = 'all' and ts > $now - interval '10 minutes' and ts <= $now
  window w as (partition by host order by ts)
),
shares as (
  select host, sum(stolen) / sum(passed) as steal_ratio,
    date_part('epoch', max(ts)) - date_part('epoch', min(ts)) as span_seconds
  from steps
  where stolen >= 0 and passed > 0
  group by host
)
select host, steal_ratio, span_seconds,
  case when span_seconds < 530 then 'note' when steal_ratio > 0.2 then 'page' else 'mail' end as class
from shares
where (steal_ratio > 0.05 and span_seconds >= 530) or (steal_ratio > 0.2 and span_seconds >= 3)
