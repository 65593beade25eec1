/*---
id = "app.error_outlier"
title = "One pool member returns errors, its siblings do not"
tier = "app"
class = "mail"
for = "3s"
every = "5s"
clear = "60s"
key = ["member", "pool"]
needs = ["request", "config_directive"]
when = "select 1 from request where upstream_status_code >= 500 and ts > $now - interval '2 minutes' and ts <= $now limit 1"
explains = [
  "app.errors", "app.errors_quiet", "lb.uneven", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.masked_errors", "proxy.retry_amplification", "slo.burning",
]
subject = "{member} in {pool}"
summary = "{member} in {pool} fails: 5xx for {errors} of {requests} requests in 2 minutes ({error_ratio:%}), its {siblings} siblings for {sibling_errors} of {sibling_requests} ({sibling_ratio:%}){sure_text}"
why = "All members get the same kind of requests, so errors from one member only come from that member: its last deploy, its configuration, its disk, its cache. A shared cause (database, network) would affect all members."
look_at = "What is different there: version, start time, free disk space, its own log at started_ts. `select url_path, count(*) from request where upstream_address = … and upstream_status_code >= 500 group by 1`: one route or all?"
silent_when = "Fewer than 8 requests to it or its siblings in 2 minutes, or fewer than 50 and 99 % intervals (Wilson) of the error rates that overlap; fewer than 5 errors, at most 1 % errors, less than 3× the siblings' combined error rate, or a difference that chance explains (below 3.7 standard deviations). Members of a pool share the backend name or the nginx `upstream` block, else (for host names) site and port; addresses written directly in `proxy_pass` have no siblings. Canaries that get different traffic look the same."
fix = "Take {member} out of the pool (nginx: `down` after its `server` line, then `nginx -t && nginx -s reload`; HAProxy: `set server BACKEND/NAME state drain`), keep its log, and roll back to the version its siblings run. Let the proxy do it next time: nginx `max_fails=3 fail_timeout=10s` with `proxy_next_upstream error timeout http_500;`, HAProxy `observe layer7 error-limit 20 on-error mark-down`. Check: errors end and the siblings' error rate does not rise. If it does, the traffic was the cause, not the member."
source = "fault lab F37 (20 % errors at one of four after a deploy); E. B. Wilson, Probable inference (1927)"
[text.sure_text]
many = ""
few = "; with so few requests at least {low_ratio:%} against at most {sibling_high_ratio:%} (99 % intervals)"
[chart]
title = "Errors of this member and of all"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts,
  count(*) filter (where upstream_status_code >= 500 and coalesce(proxy_server, upstream_address) = {member}) as member,
  count(*) filter (where upstream_status_code >= 500) as all_members
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with config as (
  select host, directive, context,
    case when directive = 'server' then split_part(arguments, ' ', 1) else regexp_match(arguments, '://([^/]+)')[1] end as address,
    rank() over (partition by host, file order by ts desc) as place
  from config_directive
  where program = 'nginx' and (directive = 'proxy_pass' or (directive = 'server' and context like '%upstream %'))
    and ts > $now - interval '2 hours' and ts <= $now
),
addresses as (
  select host, address,
    max(case when directive = 'server' then regexp_match(context, 'upstream ([^/]+)')[1] end) as pool,
    max(case when directive = 'proxy_pass' then 1 else 0 end) as is_alone
  from config
  where place = 1 and address is not null
  group by host, address
),
counted as (
  select host, coalesce(nullif(proxy_backend, ''), '') as backend, coalesce(server_address, 'any name') as server, upstream_address,
    coalesce(nullif(proxy_server, ''), upstream_address) as member, count(*) as requests, count(*) filter (where upstream_status_code >= 500) as errors
  from request
  where ts > $now - interval '2 minutes' and ts <= $now and tier in ('proxy', 'edge') and coalesce(nullif(proxy_server, ''), upstream_address) is not null and upstream_status_code is not null
  group by 1, 2, 3, 4, 5
),
members as (
  select c.host, c.member, sum(c.requests) as requests, sum(c.errors) as errors,
    case when c.backend <> '' then c.backend when a.pool is not null then a.pool
         else concat(c.server, ', port ', split_part(c.upstream_address, ':', -1)) end as pool
  from counted c
  left join addresses a on a.host = c.host and a.address = c.upstream_address
  where c.backend <> '' or a.pool is not null or coalesce(a.is_alone, 0) = 0
  group by 1, 2, 5
),
pools as (
  select *, count(*) over w - 1 as siblings,
    sum(requests) over w - requests as sibling_requests, sum(errors) over w - errors as sibling_errors
  from members
  window w as (partition by host, pool)
),
compared as (
  select *, cast(errors as double) / requests as error_ratio, cast(sibling_errors as double) / sibling_requests as sibling_ratio
  from pools
  where siblings >= 1 and requests >= 8 and sibling_requests >= 8 and errors >= 5
),
bounded as (
  -- Wilson's interval at 99 %: z = 2.58, z² = 6.66.
  select *,
    (errors + 3.33 - 2.58 * sqrt(cast(errors as double) * (requests - errors) / requests + 1.665)) / (requests + 6.66) as low_ratio,
    (sibling_errors + 3.33 + 2.58 * sqrt(cast(sibling_errors as double) * (sibling_requests - sibling_errors) / sibling_requests + 1.665))
      / (sibling_requests + 6.66) as sibling_high_ratio
  from compared
)
select host, pool, member, requests, errors, error_ratio, siblings, sibling_requests, sibling_errors, sibling_ratio, low_ratio, sibling_high_ratio,
  case when requests < 50 or sibling_requests < 50 then 'few' else 'many' end as sure_text,
  case when error_ratio > 0.05 then 'page' else 'mail' end as class
from bounded
where (requests >= 50 and sibling_requests >= 50 or low_ratio > sibling_high_ratio) and error_ratio > 0.01 and error_ratio > 3 * sibling_ratio
  and errors - requests * greatest(sibling_ratio, 0.002)
    > 3.7 * sqrt(requests * greatest(sibling_ratio, 0.002) * (1 - greatest(sibling_ratio, 0.002)))
