/*---
id = "tune.max_tw_buckets"
title = "TIME_WAIT limit reached"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "tcp_stat"]
subject = "{name}"
summary = "{events} connections skipped TIME_WAIT since boot, because {current} were already in it"
why = "TIME_WAIT keeps an old connection's late packets away from a new one with the same ports. Beyond the limit a connection has no such protection; nothing is logged."
look_at = "`ss -s`: how many are in timewait? Tens of thousands mean that connections are not kept alive between balancer, proxy and application: fix that first."
silent_when = "The counter TCPTimeWaitOverflow is 0 since boot."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/ip-sysctl.rst; 350,000 in TIME_WAIT were measured at 87 MiB"
[setting]
risk = "0.25 KiB of memory per additional connection in TIME_WAIT."
interaction = "Lowering it does not shorten TIME_WAIT, it only removes the protection. Keep-alive to upstreams makes it unnecessary."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.ipv4.tcp_max_tw_buckets' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
counter as (
  select host, max(value) as events
  from tcp_stat
  where protocol = 'TcpExt' and counter = 'TCPTimeWaitOverflow' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
)
select s.host, 'net.ipv4.tcp_max_tw_buckets' as name, s.current, 2 * cast(s.current as bigint) as suggested, s.set_in, c.events
from setting s join counter c on c.host = s.host
where c.events > 0 and cast(s.current as bigint) < 4194304
