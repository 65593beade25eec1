/*---
id = "proxy.retry_amplification"
title = "Retry amplification: proxy retries multiply the load"
tier = "proxy"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["upstream"]
prefers = ["app.down", "wire.syn_blackhole"]
needs = ["request", "config_directive"]
when = "select 1 from request where upstream_tries > 1 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["client.aborts_499"]
subject = "retries to {upstream} on {host}"
summary = "requests to {upstream} on {host} take {tries_mean:.2} tries on average (last minute: {retried} of {requests} retried, {failed} failed anyway); {past_text}"
why = "When an upstream fails or is too slow, the proxy sends the request to the next. With one bad member that saves the client; when all are slow for the same reason (a database, the CPU), each request becomes two or three, and the retries prevent recovery."
look_at = "One member or all? `select attrs['upstream'], count(*) from log where program = 'nginx' and body like '%upstream%' group by 1`. What all of them depend on: app.slow, disk, database. Proxy timeouts shorter than the application needs (`proxy_read_timeout`)."
silent_when = "Fewer than 50 proxied requests in a minute, mean tries (over the last 12 s if those have 50 requests, else over the minute) up to the threshold (1.2 is a default: `weir thresholds proxy.retry_amplification` gives the value for this fleet), or less than 0.1 more than 10 and 60 minutes ago. nginx lists an internal redirect (X-Accel-Redirect, error_page to another upstream) like a retry: where that is usual, the history contains it. HAProxy counts its repeated connections."
fix = "Limit retries: nginx `proxy_next_upstream error timeout;` (not http_500, http_503), `proxy_next_upstream_tries 2;` and `proxy_next_upstream_timeout 5s;`{place}; HAProxy `retries 1` and `retry-on conn-failure`. Requests that change data are retried only with `non_idempotent`: omit it. Then fix the failing upstream. Check: tries_mean near 1.0."
source = "fault lab F33 (1.0 to 3.0 tries, all 504); field notes A (balancers that do not retry)"
[chart]
title = "Tries per request"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, avg(cast(upstream_tries as double)) as tries
from proxy_request where host = {host} and upstream_tries > 0 and ts > $now - interval '30 minutes' and ts <= $now
group by 1 order by 1"""
[threshold]
value = 1.2
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '1 minute', ts) as slice, host, coalesce(pool, 'its upstreams') as subject,
    avg(cast(upstream_tries as double)) as value
  from proxy_request
  where ts >= $from and ts < $to and upstream_tries > 0
  group by 1, 2, 3
  having count(*) >= 50
) slices
group by 1, 2, 3"""
---*/
with minute as (
  select host, coalesce(pool, 'its upstreams') as upstream, max(program) as program,
    count(*) as requests, avg(cast(upstream_tries as double)) as tries_mean,
    count(*) filter (where upstream_tries > 1) as retried,
    count(*) filter (where upstream_tries > 1 and http_response_status_code >= 500) as failed,
    count(*) filter (where ts > $now - interval '12 seconds') as newest_requests,
    avg(cast(upstream_tries as double)) filter (where ts > $now - interval '12 seconds') as newest_tries_mean
  from proxy_request
  where ts > $now - interval '60 seconds' and ts <= $now and upstream_tries > 0
  group by 1, 2
  having count(*) >= 50
),
recent as (
  -- With many requests twelve seconds suffice, and detect it sooner: earlier calm seconds do not dilute it.
  select host, upstream, program, requests, retried, failed,
    case when newest_requests >= 50 then newest_tries_mean else tries_mean end as tries_mean
  from minute
  where case when newest_requests >= 50 then newest_tries_mean else tries_mean end > $threshold
),
past_rows as (
  select host, coalesce(pool, 'its upstreams') as upstream, upstream_tries from proxy_request
  where ts > $now - interval '630 seconds' and ts <= $now - interval '600 seconds' and upstream_tries > 0
  union all
  select host, coalesce(pool, 'its upstreams') as upstream, upstream_tries from proxy_request
  where ts > $now - interval '3630 seconds' and ts <= $now - interval '3600 seconds' and upstream_tries > 0
),
past as (
  select host, upstream, avg(cast(upstream_tries as double)) as past_tries_mean from past_rows group by host, upstream having count(*) >= 20
),
config as (
  select host, program, file, line, directive, arguments,
    row_number() over (partition by host, program order by ts desc, file, line) as place
  from config_directive
  where directive in ('proxy_next_upstream', 'proxy_next_upstream_tries', 'retries') and ts > $now - interval '2 hours' and ts <= $now
)
select r.host, r.upstream, r.requests, r.tries_mean, r.retried, r.failed, p.past_tries_mean,
  case when c.file is not null then concat(' (', c.file, ':', c.line, ' has `', c.directive, ' ', c.arguments, '`)') else '' end as place,
  case when p.past_tries_mean is null then 'no history to compare with'
       else concat('before: ', cast(round(100 * p.past_tries_mean) / 100 as varchar)) end as past_text,
  case when r.tries_mean > 2 then 'page' else 'mail' end as class,
  p.past_tries_mean is null or r.tries_mean >= p.past_tries_mean + 0.1 as opens
from recent r
left join past p on p.host = r.host and p.upstream = r.upstream
left join config c on c.host = r.host and c.program = r.program and c.place = 1
