/*---
id = "tune.somaxconn"
title = "Listeners request more backlog than the kernel allows"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "tcp_stat", "listener"]
subject = "{name}"
summary = "{events} connections met a full accept queue since boot, and {listeners} listeners are capped at {current}, the maximum of this setting"
why = "listen() silently gets the lower of the requested backlog and this value, so a program that requests more cannot have it, and a burst of connections is dropped while CPUs are idle."
look_at = "`ss -ltn`: Send-Q is the limit in force, Recv-Q the connections waiting. Does the queue fill in bursts, or does the program not accept?"
silent_when = "No connection was dropped at a full queue since boot, or no listener's limit equals this value: then the programs request less, and raising it changes nothing."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/ip-sysctl.rst; listen(2)"
[setting]
risk = "Low: a longer queue costs 0.3 KiB per waiting connection. A queue that is long because the program is slow makes clients wait instead of failing fast."
interaction = "Effective only with the program's own backlog (nginx `listen … backlog=`, `ListenBackLog`), and only after it calls listen() again: restart, not reload."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.core.somaxconn' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
counter as (
  select host, max(value) as events
  from tcp_stat
  where protocol = 'TcpExt' and counter = 'ListenOverflows' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
queues as (
  select l.host, count(distinct l.server_port) as listeners
  from listener l join setting s on s.host = l.host
  where l.netns = 'host' and l.ts > $now - interval '5 seconds' and l.ts <= $now
    and l.accept_queue_limit = cast(s.current as bigint)
  group by l.host
)
select s.host, 'net.core.somaxconn' as name, s.current, least(4 * cast(s.current as bigint), 65535) as suggested, s.set_in,
  c.events, q.listeners
from setting s join counter c on c.host = s.host join queues q on q.host = s.host
where c.events > 0 and cast(s.current as bigint) < 65535
