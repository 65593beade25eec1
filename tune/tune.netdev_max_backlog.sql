/*---
id = "tune.netdev_max_backlog"
title = "Packets dropped at the CPU backlog"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "softnet_stat"]
subject = "{name}"
summary = "{events} of {packets} packets dropped since boot, because {current} were already queued for a CPU"
why = "Packets that one CPU hands to another, and all of loopback, veth and tunnels, wait in a queue of this length. A full one drops, and TCP resends after 200 ms."
look_at = "`/proc/net/softnet_stat`, second column, one line per CPU. A single CPU? Then spread the interrupts (RSS, RPS) first."
silent_when = "Less than one packet in a million was dropped since boot."
fix = "{name} = {suggested}"
source = "kernel net/core/dev.c; /proc/net/softnet_stat"
[setting]
risk = "A longer queue delays packets on a CPU that stays busy."
interaction = "It applies to RPS, loopback, veth and tunnels only: a NIC's own ring is `ethtool -G`."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.core.netdev_max_backlog' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
newest as (
  select host, cpu, max(drops_total) as events, max(packets_total) as packets
  from softnet_stat
  where ts > $now - interval '2 hours' and ts <= $now
  group by host, cpu
),
counter as (
  select host, sum(events) as events, sum(packets) as packets from newest group by host
)
select s.host, 'net.core.netdev_max_backlog' as name, s.current, 4 * cast(s.current as bigint) as suggested, s.set_in, c.events, c.packets
from setting s join counter c on c.host = s.host
where c.events > 0 and c.events * 1000000 >= c.packets and cast(s.current as bigint) < 30000
