/*---
id = "app.errors_quiet"
title = "Quiet site: most of its few requests fail"
tier = "app"
class = "mail"
for = "3s"
every = "10s"
clear = "2m"
key = ["site"]
needs = ["request"]
prefers = ["app.down", "app.error_outlier", "app.crash_loop", "db.not_answering"]
when = [
  """
select 1 from request where http_response_status_code >= 500 and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where http_response_status_code = 499 and duration_seconds >= 5 and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']) in ('4', '13', '14', '15', 'DeadlineExceeded', 'Internal', 'Unavailable', 'DataLoss', 'DEADLINE_EXCEEDED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS') and ts > $now - interval '60 seconds' and ts <= $now limit 1""",
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, proxy_backend, server_address
having count(*) < 200 and count(*) filter (where http_response_status_code >= 499 or regexp_like(coalesce(coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']), ''), '^(4|13|14|15|DeadlineExceeded|Internal|Unavailable|DataLoss|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS)$')) >= greatest(1, 0.1 * count(*))
limit 1""",
]
explains = ["client.aborts_499", "slo.burning"]
subject = "{site} on {host}"
summary = "{site} on {host}: {failed} of the last {requests} requests failed (95 % interval: {low_ratio:%} to {high_ratio:%}); mostly {status}{path_text}, within {window_seconds:.0} s; {past_text}"
why = "A site with a request every few seconds never has enough of them in half a minute for the rules that need 10 errors, yet each of its visitors meets the fault. So this rule looks back over as many requests as it takes, and states how sure it is."
look_at = "The status decides: 500 is an exception of the application (its log), 502 no connection or a broken response, 504 a timeout, 503 a limit or no member left (the proxy's error log). `select ts, client_address, url_path, http_response_status_code from request where server_address = … order by ts desc limit 40`."
silent_when = "Sites with 10 errors of 20 requests in 30 s (app.errors and the rules of the proxy name those). Fewer than 4 failed of the last 8, 16 or 32 requests within 15 minutes, none within a minute, a share of failures whose 95 % interval (Wilson) begins below 20 %, or below three times the share before. Failed means 5xx, or 499 after 5 s. 4xx are responses. A single visitor with a single path, such as a broken bookmark or a bot, is a note."
fix = "If a deploy or a configuration change came last, roll it back. Otherwise follow the status: restart what does not listen, repair what the exception names. A quiet site deserves a synthetic request each 10 s (a health check of the proxy, or `curl` by cron), so that faults show before visitors come. Check: the next requests succeed."
source = "E. B. Wilson, Probable inference (1927); Google SRE workbook, Alerting on SLOs, low-traffic services"
[text.past_text]
none = "no earlier requests to compare with"
known = "before: {past_failed} of {past_requests}"
[chart]
title = "Requests and failures per minute"
unit = ""
sql = """
select date_trunc('minute', ts) as ts, count(*) filter (where http_response_status_code >= 500) as failed, count(*) as requests
from proxy_request where host = {host} and coalesce(pool, concat('requests in ', source)) = {site} and ts > $now - interval '2 hours' and ts <= $now
group by 1 order by 1"""
---*/
with busy as (
  select host, coalesce(pool, concat('requests in ', source)) as site, count(*) as requests,
    count(*) filter (where http_response_status_code >= 500) as errors
  from proxy_request
  where ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2
),
quiet as (
  select host as quiet_host, site as quiet_site from busy where requests < 200
),
numbered as (
  select host, site, ts, client_address, url_path, status,
    status >= 500 or status = 499 and duration_seconds >= 5 as is_failed,
    row_number() over (partition by host, site order by ts desc) as place
  from (
    select host, coalesce(pool, concat('requests in ', source)) as site, ts, client_address, url_path, duration_seconds,
      case when http_response_status_code < 300 and regexp_like(coalesce(coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']), ''), '^(4|13|14|15|DeadlineExceeded|Internal|Unavailable|DataLoss|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS)$') then 500 else http_response_status_code end as status
    from proxy_request
    where ts > $now - interval '15 minutes' and ts <= $now
  ) r
  join quiet on quiet_host = host and quiet_site = site
),
sizes as (
  select 8 as size union all select 16 union all select 32
),
counted as (
  select n.host, n.site, s.size, count(*) filter (where n.place <= s.size) as requests,
    count(*) filter (where n.place <= s.size and n.is_failed) as failed,
    count(distinct n.client_address) filter (where n.place <= s.size and n.is_failed) as clients,
    count(distinct n.url_path) filter (where n.place <= s.size and n.is_failed) as paths,
    max(n.url_path) filter (where n.place <= s.size and n.is_failed) as path,
    max(n.ts) filter (where n.is_failed) as last_failed_ts,
    min(n.ts) filter (where n.place <= s.size) as from_ts,
    count(*) filter (where n.place > s.size) as past_requests,
    count(*) filter (where n.place > s.size and n.is_failed) as past_failed
  from numbered n cross join sizes s
  group by n.host, n.site, s.size
),
judged as (
  -- Wilson's interval at 95 %: z = 1.96, z² = 3.84.
  select *, date_part('epoch', $now) - date_part('epoch', from_ts) as window_seconds,
    (failed + 1.92 - 1.96 * sqrt(cast(failed as double) * (requests - failed) / greatest(requests, 1) + 0.96)) / (requests + 3.84) as low_ratio,
    (failed + 1.92 + 1.96 * sqrt(cast(failed as double) * (requests - failed) / greatest(requests, 1) + 0.96)) / (requests + 3.84) as high_ratio
  from counted
  where requests >= 5 and failed >= 4 and last_failed_ts > $now - interval '60 seconds'
),
chosen as (
  select *, row_number() over (partition by host, site order by low_ratio desc, size) as choice
  from judged
  where low_ratio >= 0.2 and low_ratio * greatest(past_requests, 1) >= 3 * past_failed
),
statuses as (
  select host, site, status, row_number() over (partition by host, site order by count(*) desc, status) as rank
  from numbered where is_failed and place <= 32 group by host, site, status
)
select c.host, c.site, c.requests, c.failed, c.clients, c.paths, c.window_seconds, c.low_ratio, c.high_ratio, c.past_requests, c.past_failed, t.status,
  case when c.paths = 1 then concat(', all for ', c.path) else '' end as path_text,
  case when c.past_requests < 5 then 'none' else 'known' end as past_text,
  case when c.clients = 1 and c.paths = 1 and c.failed < c.requests then 'note'
    when c.low_ratio >= 0.4 and (c.clients > 1 or c.paths > 1) then 'page' else 'mail' end as class
from chosen c
join statuses t on t.host = c.host and t.site = c.site and t.rank = 1
left join busy b on b.host = c.host and b.site = c.site
where c.choice = 1 and not (b.requests >= 40 and b.errors >= 20)
