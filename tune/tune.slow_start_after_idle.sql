/*---
id = "tune.slow_start_after_idle"
title = "Pooled upstream connections restart slowly after idle"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "config_directive"]
subject = "{name}"
summary = "{pools} nginx pools keep upstream connections (first: {place}); each connection idle for 200 ms or more restarts with 10 packets"
why = "After an idle period longer than its retransmission timeout, a connection forgets the capacity of its path. Pooled connections to upstreams in the same network are often idle and lose a round trip or two with each larger response."
look_at = "`ss -ti` to an upstream: cwnd after an idle period."
silent_when = "No pool of upstream connections in nginx's configuration; or it is 0 already."
fix = "{name} = {suggested}"
source = "RFC 5681 §4.1; kernel Documentation/networking/ip-sysctl.rst"
[setting]
risk = "It applies to all connections, clients' too: after an idle period they may send a burst that their link cannot carry. Leave it where clients come over mobile networks and large responses follow long idle periods."
interaction = "BBR paces and does not need it. It only matters for responses larger than ten packets (14 KiB)."
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
