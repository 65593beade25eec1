/*---
id = "proxy.upstream_hangs"
title = "Requests hang at an upstream"
tier = "app"
class = "mail"
for = "8s"
every = "4s"
clear = "20s"
key = ["upstream"]
needs = ["tcp_wait", "sock_stat"]
when = [
  "select 1 from tcp_wait where side = 'client' and longest_seconds >= 2 and waiting >= 3 and ts > $now - interval '20 seconds' and ts <= $now limit 1",
  """
select 1 from tcp_wait
where side = 'client' and waiting >= 3 and 2 * waiting >= connections and ts > $now - interval '20 seconds' and ts <= $now
group by host, netns, server_address, server_port having max(longest_seconds) >= 2 and (count(*) >= 2 or max(longest_seconds) >= 5) limit 1""",
]
explains = ["app.requests_stopped", "client.aborts_499", "lb.uneven", "proxy.haproxy_queue", "slo.burning"]
subject = "{upstream} behind {program} on {host}"
summary = "{upstream} leaves requests of {program} on {host} without an answer: {waiting} of {connections} connections wait, up to {longest_seconds:duration}{others_text}"
why = "The requests are sent, and no response comes. No log shows it yet: a request is logged when it ends, and by default nginx waits 60 s. Without times in the log format a slow upstream is never visible there."
look_at = "{upstream} itself: its CPU, its workers, what they wait for (a thread dump, its database). One member only: its host, its last deploy. `ss -tnoi dst {address}` shows `lastsnd` and `lastrcv` of each connection; `select ts, server_address, server_port, waiting, connections from tcp_wait where side = 'client' order by ts desc limit 30` compares the members."
silent_when = "In the last 20 s no sample in which 3 connections and half of all to this upstream have waited for over a second and one for 5 s, nor two with a wait of 2 s; no client of the proxy waits. As many waited in a fifth or more of the last 10 minutes: long polls, event streams, WebSockets and slow reports wait as well. weir has watched for less than 90 s. Any finding that names the cause (the upstream is slow by the log's times, stopped, overloaded, waits for its database) makes it a note."
fix = "Take {upstream} out of the pool (`down` in nginx, `set server … state maint` in HAProxy) if the other members are fast, then restart it after saving a stack dump. Shorten `proxy_read_timeout` (10 s) so that clients get an answer. Add `$upstream_addr $upstream_header_time` to the log format to see it at once the next time. Check: `waiting` of tcp_wait falls to 0."
source = "kernel tcp_info: tcpi_last_data_sent, tcpi_last_data_recv; nginx proxy_read_timeout"
[text.others_text]
alone = "; no other upstream of {program} hangs"
some = "; other upstreams of {program} that hang: {others}"
[chart]
title = "Connections without an answer for a second"
unit = ""
sql = """
select ts, sum(waiting) as waiting from tcp_wait
where host = {host} and side = 'client' and server_address = {address} and server_port = {port} and ts > $now - interval '15 minutes' and ts <= $now
group by ts order by ts"""
---*/
with samples as (
  select host, netns, side, server_address as address, server_port as port, ts, connections, waiting, longest_seconds, process_name, tier
  from tcp_wait
  where ts > $now - interval '20 seconds' and ts <= $now
),
waits as (
  select host, netns, address, port, min(waiting) as least, max(waiting) as waiting, max(connections) as connections,
    max(longest_seconds) as longest_seconds, max(process_name) as program
  from samples
  where side = 'client' and waiting >= 3 and 2 * waiting >= connections
    and tier in ('proxy', 'edge')
  group by host, netns, address, port
  having max(longest_seconds) >= 2 and (count(*) >= 2 or max(longest_seconds) >= 5)
),
visitors as (
  select host as visitors_host, netns as visitors_netns, process_name as visitors_program, max(waiting) as visitors
  from samples
  where side = 'server' and waiting >= 2
  group by 1, 2, 3
  having count(distinct ts) >= 2 or max(longest_seconds) >= 5
),
history as (
  select host as history_host, netns as history_netns, floor((date_part('epoch', max(ts)) - date_part('epoch', min(ts))) / 10) as slices
  from sock_stat
  where ts > $now - interval '10 minutes' and ts <= $now - interval '30 seconds'
  group by 1, 2
),
usual as (
  select w.host as usual_host, w.netns as usual_netns, w.address as usual_address, w.port as usual_port, count(distinct floor(date_part('epoch', p.ts) / 10)) as usual_slices
  from waits w
  join tcp_wait p on p.host = w.host and p.netns = w.netns and p.side = 'client' and p.server_address = w.address and p.server_port = w.port
  where p.ts > $now - interval '10 minutes' and p.ts <= $now - interval '30 seconds' and 2 * p.waiting >= w.waiting
  group by 1, 2, 3, 4
)
select host, netns, address, port, waiting, connections, longest_seconds, program, visitors,
  count(*) over (partition by host, netns, program) - 1 as others,
  case when address like '%:%' then concat('[', address, ']:', port) else concat(address, ':', port) end as upstream,
  case when count(*) over (partition by host, netns, program) = 1 then 'alone' else 'some' end as others_text,
  slices >= 6 and coalesce(usual_slices, 0) < 0.2 * slices as opens,
  case when least >= 10 and longest_seconds >= 10 then 'page' else 'mail' end as class
from waits
join visitors on visitors_host = host and visitors_netns = netns and visitors_program = program
join history on history_host = host and history_netns = netns
left join usual on usual_host = host and usual_netns = netns and usual_address = address and usual_port = port
