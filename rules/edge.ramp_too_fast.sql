/*---
id = "edge.ramp_too_fast"
title = "Traffic moves to a balancer faster than what is behind it gets warm"
tier = "edge"
class = "mail"
for = "0s"
every = "30s"
clear = "5m"
key = []
explained_by = ["app.down", "edge.backend_out"]
needs = ["request"]
when = "select host from request where tier = 'edge' and upstream_address is not null and ts > $now - interval '1 minute' and ts <= $now group by host having count(*) >= 300 limit 1"
subject = "requests of {host}"
summary = "{host} passes on {rate:.0} requests/s, {times:.1} times as many as 5 minutes ago, and its backends' median until the first byte rose from {median_before:duration} to {median:duration}{connects_text}{failures_text}"
why = "Caches, connection pools and compiled code of the backends are as large as the traffic was. When it moves there in one step (a name's weight, another region that is switched off, a balancer that is replaced) each request pays for what is cold, requests pile up, and time-outs begin although the same traffic would be carried well ten minutes later."
look_at = "Whether traffic was moved there: `select date_trunc('minute', ts), count(*), median(upstream_header_seconds), avg(case when upstream_connect_seconds > 0 then 1.0 else 0.0 end) as connected from request where tier = 'edge' and host = '{host}' and ts > now() - interval '20 minutes' group by 1 order by 1`. When the share that connected anew falls and the median does not, it is no warming up but too few backends."
silent_when = "Fewer than 300 requests in the last minute, less than twice the requests of a minute 5 minutes ago, or then fewer than 60 (nothing is known of a balancer that had no traffic); a median that rose by less than half or by less than 5 ms. These thresholds are opinions. A burst that is answered as fast as ever is none."
fix = "Move traffic in steps: give the new place a tenth, wait until the median is level, then twice as much each time. A balancer that takes another's place starts with what that one has learnt and with as many open connections: `weir edge export | weir edge apply`. New backends beside old ones are spared by `edge.slow_start_seconds`. Check: the median comes back while the rate stays."
source = "field notes A (rented balancers had to be warmed up by their vendor before a move)"
[chart]
title = "Requests passed on, and the backends' median until the first byte"
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
    then concat('; ', cast(round(100 * n.connects) as bigint), ' % of the requests had to connect first') else '' end as connects_text,
  case when n.failures > 0 then concat('; ', n.failures, ' failed') else '' end as failures_text
from spans n
join spans b on b.host = n.host and not b.is_now
where n.is_now and n.requests >= 300 and b.requests >= 60 and n.requests >= 2 * b.requests
  and n.median > 1.5 * b.median and n.median > b.median + 0.005
