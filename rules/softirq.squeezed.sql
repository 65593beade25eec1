/*---
id = "softirq.squeezed"
title = "CPU exceeds its network packet budget"
tier = "kernel"
class = "note"
for = "60s"
every = "30s"
clear = "3m"
key = []
needs = ["softnet_stat", "sysctl"]
when = "select host from softnet_stat where ts > $now - interval '5 minutes' and ts <= $now group by host, cpu having max(time_squeezes_total) > min(time_squeezes_total) + 240 limit 1"
subject = "packet budget of {host}"
summary = "CPU {worst_cpu} of {host} ended {squeezes_per_second:.1} rounds/s with packets left over {span_seconds:duration} ({processors} CPUs above one per second); net.core.netdev_budget = {limit_text}"
why = "In each round a CPU may process netdev_budget packets or spend netdev_budget_usecs. The rest waits for the next round while programs run, so latency grows; if arrivals exceed departures, rings and backlogs overflow next."
look_at = "drops_total of the same CPU (softirq.backlog_drop), softirq time of that CPU in cpu_stat. A single CPU: all packets come through one queue, see /proc/interrupts."
silent_when = "At most one squeeze per second on each CPU over 5 minutes, or fewer than 4 minutes of samples: single ones happen on every busy host. While packets are dropped at the backlog it belongs to that finding."
fix = "Spread the load first if one CPU has it all: `ethtool -L DEVICE combined N`, irqbalance, or receive steering in rps_cpus. Then {place}net.core.netdev_budget = {wanted} and net.core.netdev_budget_usecs = 8000, applied with `sysctl --system`, at once and without risk except longer rounds. Check: time_squeezes_total rises by less than 1 per second."
source = "fault lab F18 (1576 squeezes at a budget of 2); kernel net/core/dev.c, net_rx_action"
---*/
with steps as (
  select host, cpu, ts,
    time_squeezes_total - lag(time_squeezes_total) over w as squeezes,
    date_part('epoch', ts) as at
  from softnet_stat
  where ts > $now - interval '5 minutes' and ts <= $now
  window w as (partition by host, cpu order by ts)
),
processors as (
  select host, cpu, sum(squeezes) filter (where squeezes >= 0) as squeezes, max(at) - min(at) as span_seconds
  from steps
  group by host, cpu
),
busy as (
  select host, cpu, span_seconds, squeezes / span_seconds as squeezes_per_second,
    row_number() over (partition by host order by squeezes / span_seconds desc, cpu) as place,
    count(*) over (partition by host) as processors
  from processors
  where span_seconds >= 240 and squeezes > span_seconds
),
setting as (
  select host, try_cast(value as bigint) as budget, set_in,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.core.netdev_budget' and ts > $now - interval '2 hours' and ts <= $now
)
select b.host, b.cpu as worst_cpu, b.span_seconds, b.squeezes_per_second, b.processors, s.budget,
  coalesce(cast(s.budget as varchar), 'unknown') as limit_text,
  greatest(2 * coalesce(s.budget, 300), 600) as wanted,
  case when s.set_in is not null then concat(s.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from busy b
left join setting s on s.host = b.host and s.place = 1
where b.place = 1
