/*---
id = "tune.netdev_budget"
title = "Network receive budget too small"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "softnet_stat"]
subject = "{name}"
summary = "{events} receive rounds ended with packets left since boot, for {packets} packets; the budget is {current} packets a round"
why = "The kernel processes packets in rounds of this many, over all NICs. A round that ends early leaves packets waiting for the next one while the CPU does other work."
look_at = "`/proc/net/softnet_stat`, third column. Are there drops in the second? Is a single CPU busy with it (`%soft` in `mpstat -P ALL`)?"
silent_when = "Fewer than one round per ten thousand packets, or fewer than 1000, ended early since boot. Single ones are normal."
fix = "{name} = {suggested}"
source = "kernel net/core/dev.c; /proc/net/softnet_stat"
[setting]
risk = "Programs on that CPU wait longer while packets are processed."
interaction = "net.core.netdev_budget_usecs ends a round as well (2 to 8 ms): raise both. Spreading interrupts over CPUs helps more than either."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.core.netdev_budget' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
newest as (
  select host, cpu, max(time_squeezes_total) as events, max(packets_total) as packets
  from softnet_stat
  where ts > $now - interval '2 hours' and ts <= $now
  group by host, cpu
),
counter as (
  select host, sum(events) as events, sum(packets) as packets from newest group by host
)
select s.host, 'net.core.netdev_budget' as name, s.current, 2 * cast(s.current as bigint) as suggested, s.set_in, c.events, c.packets
from setting s join counter c on c.host = s.host
where c.events >= 1000 and c.events * 10000 >= c.packets and cast(s.current as bigint) < 1200
