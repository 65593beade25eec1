/*---
id = "app.slow_quiet"
title = "Quiet site: most of its few requests are slow"
tier = "app"
class = "mail"
for = "3s"
every = "10s"
clear = "2m"
key = ["site"]
needs = ["request"]
prefers = ["app.slow", "disk.stuck", "disk.slow", "pg.lock_pileup", "db.not_answering", "app.blocked_on_store"]
when = [
  "select 1 from request where duration_seconds >= 1 and ts > $now - interval '60 seconds' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, proxy_backend, server_address
having count(*) < 100 and count(*) filter (where duration_seconds >= 1) >= greatest(1, 0.1 * count(*))
limit 1""",
]
explains = ["client.aborts_499", "slo.burning", "proxy.upstream_hangs"]
subject = "{site} on {host}"
summary = "{site} on {host} is slow: {slow} of the last {requests} requests took over {bound:duration} (95 % interval: {low_ratio:%} to {high_ratio:%}); p50 {p50:duration} within {window_seconds:.0} s, {past_text}"
why = "A site with a request every few seconds never has the 20 requests in 15 s that a reliable p95 needs, yet each of its visitors waits. So this rule looks back over as many requests as it takes, and states how sure it is."
look_at = "The application's own log and its database at these times; other findings of this host. `select ts, url_path, duration_seconds, upstream_header_seconds from request where server_address = … order by ts desc limit 40`: one page or all?"
silent_when = "More than 20 proxied requests in 15 s (app.slow judges those). Fewer than 4 slow of the last 8, 16 or 32 requests within 15 minutes, none within a minute, a share of slow requests whose 95 % interval (Wilson) begins below 30 %, or slow ones of a single path while others are fast (a report, an export). Slow is above 1 s and above 5× the median before, or a median above 10 s since the first request that is known, if that is less than 14 minutes ago (older ones are normal here) and no path looks like a long poll or a stream. The time of the application counts where the log has it, else the whole duration without responses over 1 MiB (slow readers). Long polls and event streams have a slow median before, too."
fix = "Find the slow part: the application's profile or slow-query log for {slowest_path}, then its database. Meanwhile `proxy_read_timeout 10s;` keeps workers free. Check: the next requests are below {bound:duration}."
source = "E. B. Wilson, Probable inference (1927); Google SRE workbook, Alerting on SLOs, low-traffic services"
[text.past_text]
none = "no history to compare with"
known = "before {past_p50:duration}"
[chart]
title = "Duration, p50 and p95 per minute"
unit = "s"
sql = """
select date_trunc('minute', ts) as ts, percentile(duration_seconds, 0.5) as p50, percentile(duration_seconds, 0.95) as p95
from proxy_request where host = {host} and coalesce(pool, concat('requests in ', source)) = {site} and ts > $now - interval '2 hours' and ts <= $now
group by 1 order by 1"""
---*/
with quiet as (
  select host as quiet_host, coalesce(pool, concat('requests in ', source)) as quiet_site
  from proxy_request
  where ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2
  having count(*) < 100 and count(*) filter (where ts > $now - interval '15 seconds') < 20
),
numbered as (
  select host, site, ts, url_path, seconds, row_number() over (partition by host, site order by ts desc) as place
  from (
    select host, coalesce(pool, concat('requests in ', source)) as site, ts, url_path,
      case when upstream_response_seconds is not null then app_seconds else duration_seconds end as seconds
    from proxy_request
    where ts > $now - interval '15 minutes' and ts <= $now and duration_seconds is not null
      and (upstream_response_seconds is not null or coalesce(response_body_bytes, response_bytes, 0) < 1048576)
  ) r
  join quiet on quiet_host = host and quiet_site = site
),
sizes as (
  select 8 as size union all select 16 union all select 32
),
past as (
  select n.host, n.site, s.size, count(*) as past_requests, percentile(n.seconds, 0.5) as past_p50,
    greatest(1.0, 5 * percentile(n.seconds, 0.5)) as bound
  from numbered n cross join sizes s
  where n.place > s.size
  group by n.host, n.site, s.size
  having count(*) >= 10
),
bounds as (
  select host, site, size, past_requests, past_p50, bound, true as opens from past
  union all
  -- Ten seconds are slow for anything but a stream; what is always so slow opens nothing.
  select host, site, 8 as size, count(*) as past_requests, cast(null as double) as past_p50, 10.0 as bound,
    min(ts) > $now - interval '14 minutes' as opens
  from numbered
  where not regexp_like(lower(coalesce(url_path, '')), 'poll|stream|event|sse|socket|/ws|hub|watch|subscri|notif|comet|live|sync')
  group by host, site
  having count(*) >= 8 and percentile(seconds, 0.5) >= 10.0
),
counted as (
  select n.host, n.site, p.size, p.past_p50, p.past_requests, p.bound, p.opens, count(*) as requests,
    count(*) filter (where n.seconds >= p.bound) as slow,
    count(distinct n.url_path) filter (where n.seconds >= p.bound) as slow_paths,
    count(distinct n.url_path) filter (where n.seconds < p.bound) as fast_paths,
    percentile(n.seconds, 0.5) as p50, max(n.url_path) filter (where n.seconds >= p.bound) as slowest_path,
    max(n.ts) filter (where n.seconds >= p.bound) as last_slow_ts, min(n.ts) as from_ts
  from numbered n join bounds p on p.host = n.host and p.site = n.site
  where n.place <= p.size
  group by n.host, n.site, p.size, p.past_p50, p.past_requests, p.bound, p.opens
),
judged as (
  -- Wilson's interval at 95 %: z = 1.96, z² = 3.84.
  select *, date_part('epoch', $now) - date_part('epoch', from_ts) as window_seconds,
    (slow + 1.92 - 1.96 * sqrt(cast(slow as double) * (requests - slow) / greatest(requests, 1) + 0.96)) / (requests + 3.84) as low_ratio,
    (slow + 1.92 + 1.96 * sqrt(cast(slow as double) * (requests - slow) / greatest(requests, 1) + 0.96)) / (requests + 3.84) as high_ratio
  from counted
  where slow >= 4 and last_slow_ts > $now - interval '60 seconds'
),
chosen as (
  select *, row_number() over (partition by host, site order by opens desc, low_ratio desc, size) as choice
  from judged
  where low_ratio >= 0.3 and (slow_paths > 1 or fast_paths = 0)
)
select host, site, requests, slow, bound, p50, past_p50, past_requests, window_seconds, low_ratio, high_ratio,
  coalesce(slowest_path, 'unknown') as slowest_path, opens,
  case when past_p50 is null then 'none' else 'known' end as past_text
from chosen where choice = 1
