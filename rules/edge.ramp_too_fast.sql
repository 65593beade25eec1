/*---
id = "edge.ramp_too_fast"
title = "Traffic ramped up faster than backends warm up"
tier = "edge"
class = "mail"
for = "0s"
every = "30s"
clear = "5m"
key = []
needs = ["request"]
when = "select host from request where tier = 'edge' and upstream_address is not null and ts > $now - interval '1 minute' and ts <= $now group by host having count(*) >= 300 limit 1"
subject = "requests of {host}"
summary = "{host} serves {times:.1}× the requests of 5 minutes ago: {rate:.0} requests/s, and median time to first byte rose from {median_before:duration} to {median:duration}{connects_text}{failures_text}"
why = "Caches, connection pools and JIT-compiled code of the backends are sized for the previous traffic. When traffic moves in one step (a DNS weight, another region switched off, a replaced balancer), each request pays for cold caches, requests queue, and timeouts begin, although the same traffic would be served well ten minutes later."
look_at = "Whether traffic was moved here: `select date_trunc('minute', ts), count(*), median(upstream_header_seconds), avg(case when upstream_connect_seconds > 0 then 1.0 else 0.0 end) as connected from request where tier = 'edge' and host = '{host}' and ts > now() - interval '20 minutes' group by 1 order by 1`. If the share of new connections falls and the median does not, this is not warm-up but too few backends."
silent_when = "Fewer than 300 requests in the last minute, less than 2× the requests of a minute 5 minutes ago, or fewer than 60 then (an idle balancer has no history); a median that rose by less than half or by less than 5 ms. These thresholds are opinions. A burst that is served as fast as ever is fine."
fix = "Move traffic in steps: a tenth first, wait until the median is level, then double it each time. A replacement balancer can start with what the old one learnt and with as many open connections: `weir edge export | weir edge apply`. New backends beside old ones are protected by `edge.slow_start_seconds`. Check: the median recovers while the rate stays."
source = "field notes A (rented balancers had to be warmed up by their vendor before a move)"
[chart]
title = "Requests per second and median time to first byte"
unit = ""
sql = """
select date_trunc('minute', ts) as ts, count(*) as requests, 1000 * median(upstream_header_seconds) as median_ms from request
where host = {host} and tier = 'edge' and upstream_address is not null and ts > $now - interval '1 hour' and ts <= $now group by 1 order by 1"""
---*/
with spans as (
  select host, ts > $now - interval '1 minute' as is_now, count(*) as requests, median(upstream_header_seconds) as median,
    avg(case when upstream_connect_seconds > 0 then 1.0 else 0.0 end) as connects,
    count(*) filter (where failure is not null and failure not like 'client%') as failures
  from request
  where tier = 'edge' and upstream_address is not null
    and (ts > $now - interval '1 minute' and ts <= $now
      or ts > $now - interval '6 minutes' and ts <= $now - interval '5 minutes')
  group by 1, 2
)
select n.host, cast(n.requests as double) / 60 as rate, cast(n.requests as double) / b.requests as times,
  n.median, b.median as median_before,
  case when n.connects > 0.05 and n.connects > 2 * b.connects
    then concat('; ', cast(round(100 * n.connects) as bigint), ' % of requests needed a new connection') else '' end as connects_text,
  case when n.failures > 0 then concat('; ', n.failures, ' failed') else '' end as failures_text
from spans n
join spans b on b.host = n.host and not b.is_now
where n.is_now and n.requests >= 300 and b.requests >= 60 and n.requests >= 2 * b.requests
  and n.median > 1.5 * b.median and n.median > b.median + 0.005
