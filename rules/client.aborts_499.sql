/*---
id = "client.aborts_499"
title = "Many clients abort before the response"
tier = "client"
class = "note"
for = "10s"
every = "20s"
clear = "60s"
key = ["requested_name"]
prefers = ["app.down", "app.slow", "wire.loss"]
needs = ["request"]
when = [
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now and tier in ('proxy', 'edge')
  and (http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%'))
group by host, server_address, proxy_frontend
having count(*) >= 10
limit 1""",
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, coalesce(server_address, proxy_frontend, 'any name')
having count(*) >= 100
  and count(*) filter (where http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%')) > $threshold * count(*)
limit 1""",
]
subject = "clients of {server}"
summary = "clients of {server} on {host} aborted {aborts} of {requests} requests in the last minute ({abort_ratio:%}), half within {patience_seconds:duration}; {past_text}"
why = "nginx logs 499, HAProxy C… and weir's edge client_closed when the client closes first: the client gave up, the server did not fail. Either responses have become slower than clients wait, or the clients changed: an app's own timeout, a health check, a page that cancels its requests."
look_at = "Were those requests slow (`percentile(duration_seconds, 0.5)` of status 499)? If all end at the same second, it is a timeout of the client or of a balancer in front. `select user_agent_original, url_path, count(*) … where http_response_status_code = 499 group by 1, 2`: one application or one path?"
silent_when = "Fewer than 10 aborts in a minute, at most the threshold (5 %, unless one was mined) of at least 100 requests, or less than 3× the share of 10 and of 60 minutes ago. Page reloads and beacons sent while a page closes look the same. While the application is slow or down, that finding is the cause. The 5 % is a default: `weir thresholds client.aborts_499` gives the value for this fleet."
fix = "If app.slow or app.down is open, fix that first. If responses are as fast as before, find the impatient client: its timeout must be longer than the slowest good response; give a health check that closes early its own response (nginx `location = /health { return 200; }`). Work for clients that have gone can be cancelled: nginx does so by default (`proxy_ignore_client_abort off;`), HAProxy with `option abortonclose`. Check: the share falls. Do not count 499 as errors of the site."
source = "fault lab N01 (20 aborts, 20 times 499); nginx ngx_http_request.h; HAProxy documentation 8.5, termination states"
[chart]
title = "Requests and client aborts"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, count(*) as requests,
  count(*) filter (where http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%')) as closed
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
[threshold]
value = 0.05
unit = "ratio"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '1 minute', ts) as slice, host, coalesce(server_address, proxy_frontend, 'any name') as subject,
    cast(count(*) filter (where (http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%'))) as double) / count(*) as value
  from request
  where ts >= $from and ts < $to and tier in ('proxy', 'edge')
  group by 1, 2, 3
  having count(*) >= 100
) slices
group by 1, 2, 3"""
---*/
with recent as (
  select host, coalesce(server_address, proxy_frontend, 'any name') as server, count(*) as requests,
    count(*) filter (where http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%')) as aborts,
    percentile(case when http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%') then duration_seconds end, 0.5) as patience_seconds
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2
),
past_rows as (
  select host, coalesce(server_address, proxy_frontend, 'any name') as server, http_response_status_code, failure, termination_state
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '630 seconds' and ts <= $now - interval '600 seconds'
  union all
  select host, coalesce(server_address, proxy_frontend, 'any name') as server, http_response_status_code, failure, termination_state
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '3630 seconds' and ts <= $now - interval '3600 seconds'
),
past as (
  select host, server,
    cast(count(*) filter (where http_response_status_code = 499 or failure = 'client_closed' or (termination_state like 'C%' and termination_state not like 'CR%')) as double) / count(*) as past_ratio
  from past_rows
  group by host, server
  having count(*) >= 50
)
select r.host, r.server, r.server as requested_name, r.requests, r.aborts, r.patience_seconds, cast(r.aborts as double) / r.requests as abort_ratio, p.past_ratio,
  case when p.past_ratio is null then 'no history to compare with'
       else concat('before: ', cast(round(1000 * p.past_ratio) / 10 as varchar), ' %') end as past_text,
  p.past_ratio is null or cast(r.aborts as double) / r.requests > 3 * p.past_ratio as opens
from recent r
left join past p on p.host = r.host and p.server = r.server
where r.requests >= 100 and r.aborts >= 10 and r.aborts > $threshold * r.requests
