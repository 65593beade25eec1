/*---
id = "proxy.haproxy_queue"
title = "Requests queue in HAProxy for a free server slot"
tier = "app"
class = "mail"
for = "1s"
every = "5s"
clear = "20s"
key = ["backend"]
prefers = ["app.slow"]
needs = ["request", "config_directive"]
when = "select 1 from request where (queue_seconds > $threshold or termination_state like 'sQ%' or termination_state like 'CQ%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = ["client.aborts_499", "proxy.bad_gateway", "slo.burning"]
subject = "backend {backend} on {host}"
summary = "backend {backend} on {host}: requests queue {queue_mean:duration} on average, {queue_ratio:%} of their time ({requests} requests in 30 s, server time {app_mean:duration}); {given_up} gave up in the queue"
why = "Each server handles at most maxconn requests at once; the others queue in HAProxy. So requests arrive faster than the servers answer: they have become slow, there are fewer of them, or maxconn is below their capacity."
look_at = "Are the servers slower than before (app_mean, app.slow)? Fewer (`Server … is DOWN` in the log)? Or more requests? In `echo 'show stat' | socat stdio /run/haproxy/admin.sock`: qcur, qmax, scur against slim for each server."
silent_when = "Fewer than 20 requests in 30 s, a mean wait up to the threshold (10 ms is a default: `weir thresholds proxy.haproxy_queue` gives the value for this fleet), at most a fifth of the time, and no request gave up in the queue. A small maxconn used for admission control, with short waits, stays silent. It is a page when 3 or more gave up (sQ: 503 after `timeout queue`; CQ: the client left)."
fix = "Servers slower or fewer: fix them first, more concurrency only makes a slow application slower. Servers healthy and as fast as before: raise maxconn of the servers of backend {backend}{place} to what they can handle at once (threads or workers of the application), then `systemctl reload haproxy`. Set `timeout queue 5s` to bound the wait. Check: queue_seconds near 0 and server time unchanged; if it rose, go back."
source = "fault lab F41 (maxconn 2: Tw 692 ms, Tr 162 ms, 26 times sQ); HAProxy documentation 8.4 and 8.5, maxconn"
[chart]
title = "Mean time in HAProxy's queue and in the server"
unit = "s"
sql = """
select date_bin(interval '5 seconds', ts) as ts, avg(queue_seconds) as queue, avg(upstream_header_seconds) as server
from request where tier = 'proxy' and host = {host} and proxy_backend = {backend} and ts > $now - interval '10 minutes' and ts <= $now
group by 1 order by 1"""
[threshold]
value = 0.01
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '30 seconds', ts) as slice, host, proxy_backend as subject, avg(queue_seconds) as value
  from request
  where ts >= $from and ts < $to and tier = 'proxy' and program = 'haproxy' and proxy_backend is not null and queue_seconds is not null
  group by 1, 2, 3
  having count(*) >= 20
) slices
group by 1, 2, 3"""
---*/
with recent as (
  select host, proxy_backend as backend, count(*) as requests,
    avg(queue_seconds) as queue_mean,
    sum(queue_seconds) / greatest(sum(duration_seconds), 0.000001) as queue_ratio,
    avg(upstream_header_seconds - coalesce(upstream_connect_seconds, 0.0)) as app_mean,
    count(*) filter (where termination_state like 'sQ%' or termination_state like 'CQ%') as given_up
  from request
  where ts > $now - interval '30 seconds' and ts <= $now and tier = 'proxy' and program = 'haproxy' and proxy_backend is not null
  group by host, proxy_backend
  having count(*) >= 20
),
config as (
  select host, split_part(context, ' ', 2) as backend, file, line, arguments,
    row_number() over (partition by host, split_part(context, ' ', 2) order by ts desc, file, line) as place
  from config_directive
  where program = 'haproxy' and directive in ('server', 'default-server') and arguments like '%maxconn%'
    and ts > $now - interval '2 hours' and ts <= $now
)
select r.*,
  case when c.file is not null then concat(' (', c.file, ':', c.line, ': server ', c.arguments, ')') else '' end as place,
  case when r.given_up >= 3 then 'page' else 'mail' end as class
from recent r
left join config c on c.host = r.host and c.backend = r.backend and c.place = 1
where r.given_up > 0 or (r.queue_mean > $threshold and r.queue_ratio > 0.2)
