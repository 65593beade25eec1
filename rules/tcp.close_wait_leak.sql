/*---
id = "tcp.close_wait_leak"
title = "CLOSE_WAIT leak: process does not close connections"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "3m"
key = ["netns"]
prefers = ["tcp.accept_queue_high", "tcp.accept_wait"]
needs = ["sock_stat", "listener", "request", "log"]
when = "select 1 from sock_stat where tcp_close_wait >= 20 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = [
  "client.aborts_499", "proxy.haproxy_queue", "proxy.retry_amplification",
  "proxy.worker_connections",
]
subject = "CLOSE_WAIT in netns {netns} of {host}"
summary = "CLOSE_WAIT sockets in netns {netns} of {host} only grow: at least {counts_text}"
why = "The peer has closed its side, the kernel has notified the process, and the process never calls close(). Each such socket holds a file descriptor; at the limit it can accept nothing more (app.fd_limit). No kernel timeout ends CLOSE_WAIT. Sockets that the process has not accepted, or whose data it has not read, only wait for a free worker and are left out."
look_at = "Which process: `ss -tnp state close-wait`. The peer's port shows which client library: a database, a cache, an API, or clients. `ls /proc/PID/fd | wc -l` against `Max open files` in /proc/PID/limits shows the time left."
silent_when = "Fewer than 20, or their minimum per minute did not rise by at least 5 in each of the last three minutes: sockets closed within a minute do not count, whatever their number. Sockets not accepted yet, or with unread data, do not count. A leak fast enough to reach a usual descriptor limit within minutes is reported sooner: seven samples or more in 20 s, none below the one before, and at least 10 more in each 5 s; on a host that is sampled less often, the same in 40 s with 20 more in each 10 s. But only if requests of the host are answered meanwhile, none timed out or was retried within 30 s, and no accept queue of the namespace was in use: a server whose workers are all busy closes late, and looks the same. A program that is merely late closes some in between. A protocol that keeps half-closed connections on purpose has a steady number. An open finding lasts while at least half of the peak remains."
fix = "In the program: close the connection when read() returns 0 bytes or an error, on every path (`with`, `defer resp.Body.Close()`, try-with-resources), also for idle connections of a pool. Until then restart the process before its descriptors run out; a higher LimitNOFILE only buys time. Check: the number falls to near 0 after the restart and stays there. Do not lower net.ipv4.tcp_keepalive_time for it: the peer has already closed, so keepalive probes do nothing."
source = "fault lab F31 (60, 120, 180 sockets, descriptors with them); RFC 9293, CLOSE-WAIT"
[chart]
title = "Sockets in CLOSE_WAIT"
unit = ""
sql = """
select ts, tcp_close_wait as close_wait from sock_stat
where host = {host} and netns = {netns} and tcp_close_wait is not null and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with counts as (
  select host, netns, ts, tcp_close_wait - coalesce(tcp_close_wait_unread, 0) as count,
    lag(tcp_close_wait - coalesce(tcp_close_wait_unread, 0)) over (partition by host, netns order by ts) as count_before
  from sock_stat
  where tcp_close_wait is not null and ts > $now - interval '4 minutes' and ts <= $now
),
sums as (
  select host, netns,
    min(count) filter (where ts <= $now - interval '3 minutes') as minute_1,
    min(count) filter (where ts > $now - interval '3 minutes' and ts <= $now - interval '2 minutes') as minute_2,
    min(count) filter (where ts > $now - interval '2 minutes' and ts <= $now - interval '1 minute') as minute_3,
    min(count) filter (where ts > $now - interval '1 minute') as minute_4,
    count(*) filter (where ts > $now - interval '20 seconds') >= 7 as is_often,
    count(*) filter (where ts > $now - interval '40 seconds') as looks,
    count(*) filter (where ts > $now - interval '40 seconds' and count < count_before) as falls,
    count(*) filter (where ts > $now - interval '20 seconds' and count < count_before) as new_falls,
    min(count) filter (where ts > $now - interval '20 seconds' and ts <= $now - interval '15 seconds') as part_1,
    min(count) filter (where ts > $now - interval '15 seconds' and ts <= $now - interval '10 seconds') as part_2,
    min(count) filter (where ts > $now - interval '10 seconds' and ts <= $now - interval '5 seconds') as part_3,
    min(count) filter (where ts > $now - interval '5 seconds') as part_4,
    min(count) filter (where ts > $now - interval '40 seconds' and ts <= $now - interval '30 seconds') as long_1,
    min(count) filter (where ts > $now - interval '30 seconds' and ts <= $now - interval '20 seconds') as long_2,
    min(count) filter (where ts > $now - interval '20 seconds' and ts <= $now - interval '10 seconds') as long_3,
    min(count) filter (where ts > $now - interval '10 seconds') as long_4,
    max(count) as most
  from counts
  group by host, netns
),
queues as (
  -- Connections that stay in the accept queue show that no worker is free.
  select host, netns, count(distinct ts) as queued_seconds
  from listener
  where ts > $now - interval '30 seconds' and ts <= $now and accept_queue_length >= 1
  group by host, netns
),
answers as (
  select host, count(*) filter (where http_response_status_code < 500 and ts > $now - interval '10 seconds') as answered,
    count(*) filter (where http_response_status_code in (499, 502, 504) or upstream_tries > 1
      or failure is not null or app_seconds >= 5) as given_up
  from proxy_request
  where ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
timeouts as (
  select host, count(*) as lines
  from log
  where ts > $now - interval '30 seconds' and ts <= $now and program in ('nginx', 'apache', 'haproxy')
    and (body like 'upstream timed out%' or body like '%timeout specified has expired%')
  group by host
),
slices as (
  -- The pause between two counts grows with their cost: on a busy or slow host it is longer than 3 s.
  select host, netns, minute_1, minute_2, minute_3, minute_4, most, looks,
    case when is_often then 5 else 10 end as slice_seconds,
    case when is_often then new_falls else falls end as falls,
    case when is_often then part_1 else long_1 end as part_1,
    case when is_often then part_2 else long_2 end as part_2,
    case when is_often then part_3 else long_3 end as part_3,
    case when is_often then part_4 else long_4 end as part_4
  from sums
),
judged as (
  select s.*,
    minute_4 >= 20 and minute_2 >= minute_1 + 5 and minute_3 >= minute_2 + 5 and minute_4 >= minute_3 + 5 as is_slow_leak,
    part_4 >= 20 and looks >= 7 and falls = 0
      and part_2 >= part_1 + 2 * slice_seconds and part_3 >= part_2 + 2 * slice_seconds and part_4 >= part_3 + 2 * slice_seconds
      and coalesce(a.answered, 0) >= 5 and a.given_up = 0
      and coalesce(q.queued_seconds, 0) < 3 and coalesce(t.lines, 0) = 0 as is_quick_leak
  from slices s
  left join queues q on q.host = s.host and q.netns = s.netns
  left join answers a on a.host = s.host
  left join timeouts t on t.host = s.host
)
select host, netns, minute_4 as count, most,
  case
    when is_slow_leak then concat(minute_1, ', ', minute_2, ', ', minute_3, ', ', minute_4, ' in the last four minutes')
    when is_quick_leak then concat(part_1, ', ', part_2, ', ', part_3, ', ', part_4, ' in the last four ', slice_seconds, '-second slices')
    else concat(minute_4, ' in the last minute')
  end as counts_text,
  coalesce(is_slow_leak, false) or coalesce(is_quick_leak, false) as opens
from judged
where coalesce(is_quick_leak, false) or (minute_4 >= 20 and minute_4 * 2 >= most)
