/*---
id = "tcp.syn_flood_false"
title = "False SYN-flood alarm: backlog too small"
tier = "kernel"
class = "mail"
for = "2s"
every = "2s"
clear = "60s"
key = ["netns"]
needs = ["tcp_stat", "listener", "kmsg"]
when = "select 1 from tcp_stat where counter in ('SyncookiesSent', 'ListenOverflows') and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "{listener_text}"
summary = "no attack but a small backlog (netns {netns}): {sent} SYN cookies sent and {received} returned in the last minute, {overflows} handshakes dropped at a full accept queue (kernel warning: {said})"
why = "The SYN queue of a socket is as long as its backlog (net.ipv4.tcp_max_syn_backlog applies only with cookies off). A burst of legitimate clients fills it, the kernel sends cookies and warns of a flood once per socket; the clients return the cookies, so they are real."
look_at = "The listener with the smallest limit in that namespace: {listener_text}. ListenOverflows there, and what caused the burst (a deploy, a failed neighbour, news)."
silent_when = "Cookies do not come back (tcp.syn_flood), or fewer than 20 cookies and no overflow. The kernel's message is neither required nor sufficient: it is logged once per socket, so its absence proves nothing. While tcp.listen_overflow fires in the same namespace, it is a note: that finding names the listener."
fix = "Raise the backlog of {listener_text} and net.core.somaxconn together, the smaller one applies: nginx `listen {server_port} backlog=16384;`, HAProxy `bind :{server_port} backlog 16384`, others their listen() argument; /etc/sysctl.d/90-weir.conf: `net.core.somaxconn = 16384`. Restart the process so that it calls listen() again. Check: SyncookiesSent and ListenOverflows no longer rise under the same load. Never respond with net.ipv4.tcp_syncookies=0."
source = "field notes A (kernel lessons); fault lab F03 (366 cookies sent, 731 received, 1073 overflows; none with backlog 16384); kernel net/ipv4/tcp_input.c, tcp_syn_flood_action"
---*/
with counters as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'SyncookiesSent'), 0) as sent,
    coalesce(sum(increase) filter (where counter = 'SyncookiesRecv'), 0) as received,
    coalesce(sum(increase) filter (where counter = 'ListenOverflows'), 0) as overflows
  from tcp_stat
  where counter in ('SyncookiesSent', 'SyncookiesRecv', 'ListenOverflows')
    and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
warnings as (
  select host, max(body) as body, max(regexp_match(subject, '([0-9]+)$')[1]) as port
  from kmsg
  where kind = 'syn_flood' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
queues as (
  select host, netns, server_address, server_port, max(process_name) as process_name,
    max(accept_queue_limit) as queue_limit,
    max(cast(accept_queue_length as double) / greatest(accept_queue_limit, 1)) as fullness
  from listener
  where ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns, server_address, server_port
),
ranked as (
  select q.*, row_number() over (
      partition by q.host, q.netns
      order by case when cast(q.server_port as varchar) = w.port then 0 else 1 end, q.fullness desc, q.queue_limit
    ) as place
  from queues q left join warnings w on w.host = q.host
)
select c.host, c.netns, c.sent, c.received, c.overflows, r.server_address, r.server_port, r.process_name, r.queue_limit,
  coalesce(w.body, 'none seen') as said,
  case when r.server_port is null then 'an unknown listener'
       else concat(coalesce(r.process_name, 'an unknown process'), ' on ', r.server_address, ':', r.server_port, ' with a limit of ', r.queue_limit) end as listener_text
from counters c
left join warnings w on w.host = c.host
left join ranked r on r.host = c.host and r.netns = c.netns and r.place = 1
where (c.sent >= 20 and c.received > 0.5 * c.sent)
   or (c.sent >= 20 and c.received >= 0.2 * c.sent and c.overflows > 0)
   or (w.body is not null and c.overflows > 0 and c.received >= 0.2 * c.sent)
