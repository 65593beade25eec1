/*---
id = "tune.slow_start_after_idle"
title = "Kept connections to upstreams begin slowly after each pause"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "config_directive"]
subject = "{name}"
summary = "{pools} pools of nginx keep connections to upstreams (first: {place}), and each that rested for a fifth of a second or more starts with 10 packets again"
why = "After a pause longer than its retransmission time-out a connection forgets how much the line can carry. A pool of kept connections to upstreams in the same network rests often and loses a round trip or two with each larger answer."
look_at = "`ss -ti` to an upstream: cwnd after a pause."
silent_when = "No pool of kept connections in nginx's configuration; or it is 0 already."
fix = "{name} = {suggested}"
source = "RFC 5681 §4.1; kernel Documentation/networking/ip-sysctl.rst"
[setting]
risk = "It is for all connections, those of visitors too: after a pause they may send a burst that their line cannot take. Leave it where visitors come over mobile networks and large answers follow long pauses."
interaction = "BBR paces and does not need it. It only matters for answers larger than ten packets (14 KiB)."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.ipv4.tcp_slow_start_after_idle' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
newest as (
  select host, file, line, ts, max(ts) over (partition by host, file) as newest
  from config_directive
  where program = 'nginx' and directive = 'keepalive' and context like '%upstream%'
    and ts > $now - interval '2 hours' and ts <= $now
),
pools as (
  select host, count(distinct concat(file, ':', line)) as pools, min(concat(file, ':', line)) as place
  from newest where ts = newest
  group by host
)
select s.host, 'net.ipv4.tcp_slow_start_after_idle' as name, s.current, '0' as suggested, s.set_in, p.pools, p.place
from setting s join pools p on p.host = s.host
where s.current = '1'
