/*---
id = "edge.backend_out"
title = "Backend ejected by the edge"
tier = "app"
class = "mail"
for = "10s"
every = "5s"
clear = "20s"
key = ["backend"]
needs = ["edge_backend"]
when = "select 1 from edge_backend where state in ('ejected', 'stalled', 'check_failed', 'unresolved') and ts > $now - interval '25 seconds' and ts <= $now limit 1"
explains = [
  "proxy.no_live_upstreams", "proxy.bad_gateway",
  "edge.ramp_too_fast", "lb.canary_oscillation",
]
subject = "backend {backend} of {host}"
summary = "{host} ejected {backend}: {reason}; {out} of {backends} backends ejected, {failures} of its {requests} requests failed{panic_text}"
why = "The edge ejected the backend because consecutive requests failed, because it accepted requests and answered none while others did, because it fails its health checks, or because its name does not resolve. The others carry its share."
look_at = "The reasons in the rows: `select failure, upstream_status_code, count(*) from request where tier = 'edge' and upstream_address = '{backend}' and ts > now() - interval '5 minutes' group by 1, 2`. Does the process run, does it listen (listener), is its host short of memory or CPU?"
silent_when = "The backend is up, in slow start, or drained by its weight of 0. The edge reports every 10 s and at each change; a backend removed from the configuration is no longer reported and counts for 25 s."
fix = "Restart or repair the application at {backend}; the edge readmits it with slow start once it answers. To take it out on purpose set its weight to 0: `edge.backends = [\"{backend}*0\", …]` and SIGHUP. Check: edge_backend reports up."
source = "field notes A (dead servers kept getting traffic); outlier detection as in Envoy's documentation"
---*/
with latest as (
  select host, backend, state, reason, is_believed, requests_total, failures_total,
    rank() over (partition by host, backend order by ts desc) as place
  from edge_backend
  where ts > $now - interval '25 seconds' and ts <= $now
),
counted as (
  select host, count(distinct backend) as backends,
    count(distinct backend) filter (where state in ('ejected', 'stalled', 'check_failed', 'unresolved')) as out
  from latest where place = 1 group by host
)
select l.host, l.backend, max(l.reason) as reason, max(c.out) as out, max(c.backends) as backends,
  max(l.failures_total) as failures, max(l.requests_total) as requests,
  case when bool_and(l.is_believed) then '' else '; panic mode: too many are unhealthy, so all get requests' end as panic_text,
  case when max(c.out) * 2 > max(c.backends) then 'page' else 'mail' end as class
from latest l
join counted c on c.host = l.host
where l.place = 1 and l.state in ('ejected', 'stalled', 'check_failed', 'unresolved')
group by l.host, l.backend
