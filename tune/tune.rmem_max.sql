/*---
id = "tune.rmem_max"
title = "Datagrams dropped: UDP receive buffer full"
tier = "log"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "tcp_stat"]
subject = "{name}"
summary = "{events} datagrams dropped at full receive buffers since boot; a program may request at most {current} bytes"
why = "UDP has no back-pressure: a datagram that does not fit the socket's buffer is lost, and the sender is not notified. Syslog and statsd over UDP lose lines this way."
look_at = "`ss -unlp -m`: the number after `d` is that socket's drops. Does its program read too slowly? Then a larger buffer only helps with bursts."
silent_when = "The counter Udp RcvbufErrors is 0 since boot, or programs may already request 4 MiB."
fix = "{name} = {suggested}"
source = "udp(7), socket(7) SO_RCVBUF"
[setting]
risk = "Up to 4 MiB of kernel memory per socket whose program requests it."
interaction = "The program must request it with SO_RCVBUF; net.core.rmem_default applies to all programs that do not. TCP does not use it: tcp_rmem[2] is its own limit."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.core.rmem_max' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
counter as (
  select host, max(value) as events
  from tcp_stat
  where protocol = 'Udp' and counter = 'RcvbufErrors' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
)
select s.host, 'net.core.rmem_max' as name, s.current, 4194304 as suggested, s.set_in, c.events
from setting s join counter c on c.host = s.host
where c.events > 0 and cast(s.current as bigint) < 4194304
