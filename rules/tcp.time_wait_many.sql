/*---
id = "tcp.time_wait_many"
title = "Too many TIME_WAIT sockets: no connection reuse"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
clear = "60s"
key = ["netns"]
needs = ["sock_stat"]
when = "select 1 from sock_stat where tcp_time_wait > 50000 and ts > $now - interval '10 seconds' and ts <= $now limit 1"
subject = "TIME_WAIT in netns {netns}"
summary = "{time_wait} sockets in TIME_WAIT against {established} established ones (netns {netns})"
why = "The side that closes first keeps the socket for 60 s. This number means about {closes_per_second:.0} connections closed by this side per second: each request uses its own connection somewhere between balancer, proxy and application. The sockets themselves cost little (about 0.25 KiB each); the handshakes cost round trips and CPU. One team went from 200,000 to 15,000 and saved a fifth of its CPU time with keep-alive."
look_at = "Which hop opens a connection per request: ActiveOpens (this host connects) and PassiveOpens (others connect) in tcp_stat against requests per second in request; connection_requests there. `ss -s` is cheap, `netstat` with this many sockets takes minutes."
silent_when = "Fewer than 50,000, or fewer than 10× the established ones. It is harmless where every request comes from a different client. Ports run out per destination, not by this count."
fix = "Keep connections open between the tiers: nginx `upstream { … keepalive 64; }` with `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`; HAProxy `http-reuse safe`; each server's idle timeout must exceed that of the hop before it. Check: TIME_WAIT and ActiveOpens fall. Never set tcp_tw_recycle (it breaks clients behind NAT and was removed in 4.12), never lower tcp_max_tw_buckets: that only removes the protection."
source = "field notes A (350,000 sockets; 200,000 to 15,000 with keep-alive); kernel include/net/tcp.h TCP_TIMEWAIT_LEN; fault lab F05"
[chart]
title = "Sockets in TIME_WAIT"
unit = ""
sql = """
select ts, tcp_time_wait as time_wait, tcp_established as established from sock_stat
where host = {host} and netns = {netns} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
select host, netns, min(tcp_time_wait) as time_wait, max(tcp_established) as established,
  min(tcp_time_wait) / 60.0 as closes_per_second
from sock_stat
where ts > $now - interval '10 seconds' and ts <= $now
group by host, netns
having min(tcp_time_wait) > 50000 and min(tcp_time_wait) > 10 * max(tcp_established)
