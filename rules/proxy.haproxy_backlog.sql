/*---
id = "proxy.haproxy_backlog"
title = "Requests queue in HAProxy (its own counters)"
tier = "app"
class = "mail"
for = "4s"
every = "2s"
clear = "15s"
key = ["backend"]
prefers = ["proxy.backend_down", "proxy.haproxy_slow", "app.slow"]
needs = ["proxy_stat", "request"]
when = "select 1 from proxy_stat where kind in ('backend', 'server') and queue_length > 0 and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = ["proxy.haproxy_errors", "client.aborts_499"]
subject = "backend {backend} of {host}"
summary = "backend {backend} on {host}: {queued:.1} requests queue on average for a free server slot (at most {queued_max}), {server_text}"
why = "Each server handles at most its `maxconn` requests at once, the others queue in HAProxy. So requests arrive faster than the servers answer: they have become slow, there are fewer of them, or `maxconn` is below their capacity. After `timeout queue` the visitor gets 503."
look_at = "`echo 'show stat' | socat stdio {source:sh}`: qcur, scur against slim for each server, rtime (ms). Servers down (proxy.backend_down)? Servers slower than before (proxy.haproxy_slow)?"
silent_when = "A queue in fewer than three of the last samples, or less than one request on average and no 5xx. A small maxconn used for admission control, with short waits, is a note. A backend whose requests are in a readable log: proxy.haproxy_queue reports it. It is a page when requests get 5xx as well."
fix = "Servers slower or fewer: fix them first, more concurrency only makes a slow application slower. Servers healthy and as fast as before: raise `maxconn` of the servers of backend {backend} to what they can handle at once (threads or workers of the application), then `systemctl reload haproxy`. Set `timeout queue 5s` to bound the wait. Check: queue_length in proxy_stat is 0."
source = "HAProxy management guide 9.1, columns qcur, qtime, slim; configuration manual, maxconn, timeout queue"
[text.server_text]
full = "servers hold {sessions} of {session_limit} requests"
open = "servers hold {sessions} requests"
[chart]
title = "Requests in the queue"
unit = ""
sql = """
select ts, queue_length, sessions from proxy_stat
where host = {host} and proxy_name = {backend} and kind = 'backend' and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with recent as (
  select * from proxy_stat
  where ts > $now - interval '15 seconds' and ts <= $now and kind in ('backend', 'server')
),
points as (
  select host, proxy_name as backend, ts, max(source) as source, sum(queue_length) as queue_length,
    sum(case when kind = 'server' then sessions end) as sessions,
    sum(case when kind = 'server' then session_limit end) as session_limit,
    sum(case when kind = 'backend' then responses_5xx_increase end) as errors,
    max(case when kind = 'backend' then queue_seconds end) as queue_seconds
  from recent
  group by host, proxy_name, ts
),
queues as (
  select host, backend, max(source) as source, avg(queue_length) as queued, max(queue_length) as queued_max,
    count(*) filter (where queue_length > 0) as looks, max(sessions) as sessions, max(session_limit) as session_limit,
    coalesce(sum(errors), 0) as errors, max(queue_seconds) as queue_seconds
  from points
  group by host, backend
),
logged as (
  select host, proxy_backend, count(*) as requests
  from request
  where ts > $now - interval '20 seconds' and ts <= $now and program = 'haproxy' and proxy_backend is not null
  group by host, proxy_backend
)
select q.host, q.backend, q.source, q.queued, q.queued_max, q.sessions, q.session_limit, q.errors, q.queue_seconds,
  case when q.session_limit > 0 then 'full' else 'open' end as server_text,
  case when q.errors >= 3 then 'page'
       when coalesce(q.queue_seconds, 1.0) < 0.05 then 'note'
       else 'mail' end as class
from queues q
left join logged l on l.host = q.host and l.proxy_backend = q.backend
where l.requests is null and q.looks >= 3 and (q.queued >= 1 or q.errors >= 3)
