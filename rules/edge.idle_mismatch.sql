/*---
id = "edge.idle_mismatch"
title = "A backend closes idle connections before the edge does"
tier = "app"
class = "mail"
for = "0s"
every = "30s"
clear = "10m"
key = ["backend"]
needs = ["edge_backend"]
when = "select 1 from edge_backend where idle_closed_total > 0 and ts > $now - interval '5 minutes' and ts <= $now limit 1"
subject = "keep-alive between {host} and {backend}"
summary = "{backend} closed {closed} idle connections of {host} in 5 minutes before the edge did; the edge now closes them after {idle:duration}"
why = "A connection that the backend closes while a request is on its way answers with nothing: the visitor gets an error, or the edge has to ask twice, which it may not do with a POST. The side that sends requests must be the one that closes."
look_at = "The backend's own time-out: nginx `keepalive_timeout`, Apache `KeepAliveTimeout`, Node.js `server.keepAliveTimeout`, gunicorn `--keep-alive`. Has the backend been restarted (that closes all of them once)? Empty answers: `select count(*) from request where tier = 'edge' and failure = 'empty_answer' and upstream_address = '{backend}'`."
silent_when = "Fewer than 5 idle connections closed by the backend in 5 minutes. A restart of a backend closes what is idle and may count once. The edge learns the time-out and goes below it, so the finding ends by itself; the pair stays wrong for every other balancer."
fix = "Raise the backend's time-out above the edge's (75 s there against the default of 4 s here), or lower `edge.upstream_idle_seconds` below it. Check: idle_closed_total of edge_backend stays where it is."
source = "field notes A (75 s at the server, 60 s at the balancer, and empty answers when it was the other way round)"
---*/
with ordered as (
  select host, backend, ts, idle_closed_total, idle_timeout_seconds,
    row_number() over (partition by host, backend order by ts desc) as place
  from edge_backend
  where ts > $now - interval '5 minutes' and ts <= $now
)
select host, backend, max(idle_closed_total) - min(idle_closed_total) as closed,
  max(case when place = 1 then idle_timeout_seconds end) as idle
from ordered
group by host, backend
having max(idle_closed_total) - min(idle_closed_total) >= 5
