/*---
id = "tcp.syn_flood"
title = "SYN flood"
tier = "wire"
class = "mail"
for = "2s"
every = "2s"
clear = "30s"
key = ["netns"]
needs = ["tcp_stat", "listener"]
when = "select 1 from tcp_stat where counter in ('SyncookiesSent', 'TCPReqQFullDrop') and increase > 0 and ts > $now - interval '10 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped"]
subject = "SYN flood in netns {netns}"
summary = "SYN flood in netns {netns}: {syns_per_second:.0} SYNs/s overflow the SYN queue, {answered:%} complete the handshake; accept queues at most {queue_fullness:%} full; {dropped} SYNs dropped"
why = "The kernel sends SYN cookies because its SYN queue is full, and almost none come back: the senders are forged or do not want a connection. The accept queues are nearly empty, so the processes keep up and this is no burst of legitimate clients."
look_at = "tcp_stat: SyncookiesSent against SyncookiesRecv. `ss -n state syn-recv` for the senders' networks. Whether legitimate clients still connect: PassiveOpens keeps rising."
silent_when = "Fewer than 50 SYNs/s are affected, more than a fifth of the cookies come back, or a queue of the namespace is more than 10 % full: then the backlog is too small (tcp.syn_flood_false)."
fix = "{advice} Never set net.ipv4.tcp_syncookies=0 to silence it: without cookies legitimate clients can no longer connect. Limit the rate before the host (provider, load balancer, `nft add rule inet filter input tcp flags syn limit rate over 2000/second drop` only as a last resort: it drops good SYNs too). Check: SyncookiesSent no longer rises."
source = "field notes A; fault lab F02 (1391 cookies sent, 20 received, 20 of 20 good clients served); kernel Documentation/networking/ip-sysctl.rst, tcp_syncookies"
[chart]
title = "SYN cookies sent and received"
unit = "count"
sql = """
select ts, max(case when counter = 'SyncookiesSent' then increase end) as sent, max(case when counter = 'SyncookiesRecv' then increase end) as received
from tcp_stat
where counter in ('SyncookiesSent', 'SyncookiesRecv') and host = {host} and netns = {netns} and ts > $now - interval '10 minutes' and ts <= $now
group by ts order by ts"""
---*/
with counters as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'SyncookiesSent'), 0) as sent,
    coalesce(sum(increase) filter (where counter = 'SyncookiesRecv'), 0) as received,
    coalesce(sum(increase) filter (where counter = 'TCPReqQFullDrop'), 0) as dropped,
    coalesce(sum(increase) filter (where counter = 'PassiveOpens'), 0) as accepted
  from tcp_stat
  where counter in ('SyncookiesSent', 'SyncookiesRecv', 'TCPReqQFullDrop', 'PassiveOpens')
    and ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns
),
queues as (
  select host, netns, max(cast(accept_queue_length as double) / greatest(accept_queue_limit, 1)) as queue_fullness
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns
)
select c.host, c.netns, c.sent, c.received, c.dropped, c.accepted, coalesce(q.queue_fullness, 0.0) as queue_fullness,
  (c.sent + c.dropped) / 10.0 as syns_per_second,
  case when c.sent = 0 then 0.0 else cast(c.received as double) / c.sent end as answered,
  case when c.dropped > 50 then 'page' else 'mail' end as class,
  case when c.dropped > 50 then 'Cookies are off and SYNs of legitimate clients are dropped: set net.ipv4.tcp_syncookies=1 now (`sysctl -w net.ipv4.tcp_syncookies=1`, and in /etc/sysctl.d/90-weir.conf); it is used only while the SYN queue is full.'
       else 'The cookies work and legitimate clients connect, so nothing needs to change on this host.' end as advice
from counters c left join queues q on q.host = c.host and q.netns = c.netns
where c.sent + c.dropped > 500
  and c.received < 0.2 * c.sent + 0.2 * c.dropped
  and coalesce(q.queue_fullness, 0.0) < 0.1
