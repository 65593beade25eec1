/*---
id = "edge.idle_mismatch"
title = "Backend closes idle connections before the edge"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "10m"
key = ["backend"]
needs = ["edge_backend"]
when = "select 1 from edge_backend where idle_repeated_total > 0 and ts > $now - interval '5 minutes' and ts <= $now limit 1"
subject = "keep-alive between {host} and {backend}"
summary = "{backend} closed {closed} idle connections of {host} first in 5 minutes; the edge now closes them after {idle:duration}{before_text}"
why = "If the backend closes a connection while a request is on its way, the request fails: the client gets an error, or the edge must retry, which it may not do with a POST. The side that sends requests must close first."
look_at = "The backend's own timeout: nginx `keepalive_timeout`, Apache `KeepAliveTimeout`, Node.js `server.keepAliveTimeout`, gunicorn `--keep-alive`. Empty answers: `select count(*) from request where tier = 'edge' and failure = 'empty_answer' and upstream_address = '{backend}'`."
silent_when = "No two idle connections closed at the same age, a second or more apart: a restart closes them all at one moment, whatever their age. Fewer than 5 in 5 minutes are a note. The edge stays below the timeout it has learnt, so the finding ends without action; the mismatch remains for every other balancer."
fix = "Raise the backend's timeout above the edge's (75 s there, against the edge's default of 4 s), or lower `edge.upstream_idle_seconds` below it. Check: idle_closed_total of edge_backend stops rising."
source = "field notes A (75 s at the server, 60 s at the balancer, and empty answers when it was the other way round)"
---*/
with ordered as (
  select host, backend, idle_timeout_seconds,
    -- A lower value: the edge restarted.
    greatest(idle_closed_total - lag(idle_closed_total) over (partition by host, backend order by ts), 0) as closed,
    greatest(idle_repeated_total - lag(idle_repeated_total) over (partition by host, backend order by ts), 0) as repeated,
    row_number() over (partition by host, backend order by ts desc) as place,
    row_number() over (partition by host, backend order by ts) as first_place
  from edge_backend
  where ts > $now - interval '5 minutes' and ts <= $now
),
compared as (
  select host, backend, sum(closed) as closed, sum(repeated) as repeated,
    max(case when place = 1 then idle_timeout_seconds end) as idle,
    max(case when first_place = 1 then idle_timeout_seconds end) as idle_before
  from ordered
  group by host, backend
)
select host, backend, closed, idle,
  case when idle < idle_before then concat(' (before: ', cast(round(idle_before * 10) / 10 as varchar), ' s)') else '' end as before_text,
  case when closed >= 5 then 'mail' else 'note' end as class
from compared
where closed >= 2 and repeated > 0
