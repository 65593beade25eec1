/*---
id = "tune.netdev_max_backlog"
title = "Packets were dropped between network card and kernel"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "softnet_stat"]
subject = "{name}"
summary = "{events} of {packets} packets were dropped since boot, because {current} waited for a processor already"
why = "Packets that one processor hands to another, and all of loopback, veth and tunnels, wait in a queue of this length. A full one drops, and TCP sends again a fifth of a second later."
look_at = "`/proc/net/softnet_stat`, second column, one line a processor. One processor only? Then spread the interrupts (RSS, RPS) first."
silent_when = "Less than one packet in a million was dropped since boot."
fix = "{name} = {suggested}"
source = "kernel net/core/dev.c; /proc/net/softnet_stat"
[setting]
risk = "A longer queue delays packets on a processor that is busy for long."
interaction = "It is for RPS, loopback, veth and tunnels only: a card's own ring is `ethtool -G`."
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
