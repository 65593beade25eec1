/*---
id = "app.errors"
title = "High application error rate (5xx)"
tier = "app"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["site"]
prefers = ["app.error_outlier", "app.crash_loop", "app.segfault", "app.fd_limit", "tcp.ephemeral_exhausted", "db.not_answering", "db.connections_exhausted", "pg.lock_pileup", "disk.full", "disk.inodes_full", "disk.readonly", "app.cannot_write", "app.code_incomplete", "app.service_rejects", "app.service_unreachable", "app.pool_exhausted"]
needs = ["request", "listener"]
when = """
select 1 from request where http_response_status_code >= 500 and http_response_status_code not in (502, 504) and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from request where coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']) in ('2', '4', '13', '14', '15', 'Unknown', 'DeadlineExceeded', 'Internal', 'Unavailable', 'DataLoss', 'UNKNOWN', 'DEADLINE_EXCEEDED', 'INTERNAL', 'UNAVAILABLE', 'DATA_LOSS') and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = ["app.errors_quiet", "slo.burning"]
subject = "{site} on {host}"
summary = "{site} on {host}: {errors} of {requests} requests failed in the application in 30 s ({error_ratio:%}), mostly {status}{path_text}{member_text}; {past_text}"
why = "The application runs and reports that it failed: an exception, a database or service it could not use, a deploy that does not match its configuration. Clients see it at once, and proxy retries do not help when all members fail the same way."
look_at = "The application's own log at {status}: the exception and where it was thrown. What changed last (deploy, configuration, migration, certificate, expired password)? Findings on its databases, disks and name servers are listed above this one if weir sees any."
silent_when = "Fewer than 20 requests or 10 errors in 30 s, at most 2 % errors, or less than 3× the error rate of 10 and of 60 minutes ago. 502 and 504 mean that the proxy got no answer (app.down, app.slow, wire.…), as does a 503 that the application did not send (a limit, no member left), and a 500 without an upstream's status where the proxy logs these (proxy.bad_gateway). It is a page above 10 %. 4xx are client errors and do not count, and of gRPC only the server's own failures do (DEADLINE_EXCEEDED, INTERNAL, UNAVAILABLE, DATA_LOSS, in an attribute `grpc_status`, and UNKNOWN beside calls that end well). Requests of a capture count only on a host without a proxy's log."
fix = "If a deploy or a configuration change came last, roll it back: that is faster than understanding it. Otherwise fix what the exception names. If a single path fails, switch it off (nginx: `location = PATH { return 503; }`) to free capacity for the others. Check: the error rate is back to normal. Do not restart repeatedly: the errors come from what the application does, and cold caches make it worse."
source = "RFC 9110, 15.6 (5xx); field notes C (promote, look at errors, roll back); fault lab F37"
[chart]
title = "Application errors and requests"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts,
  count(*) filter (where http_response_status_code >= 500 and http_response_status_code not in (502, 504)) as errors, count(*) as requests
from proxy_request where host = {host} and coalesce(pool, concat('requests in ', source)) = {site}
  and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with logged as (
  select distinct host as logged_host from request
  where tier in ('proxy', 'edge') and ts > $now - interval '5 minutes' and ts <= $now
),
seen as (
  select host, pool, source, program, http_request_method, url_path, upstream_address, http_response_status_code, upstream_status_code, attrs
  from proxy_request
  where ts > $now - interval '30 seconds' and ts <= $now
  union all
  -- Requests seen in packets only, on a host without a proxy's log.
  select host, concat('port ', server_port) as pool, source, program, http_request_method, url_path, upstream_address, http_response_status_code, upstream_status_code, attrs
  from request
  left join logged on logged_host = host
  where tier = 'wire_edge' and logged_host is null and ts > $now - interval '30 seconds' and ts <= $now
),
answered as (
  -- A proxy that logs its upstreams' status, and has none for this request, failed by itself (proxy.bad_gateway).
  -- Calls of gRPC have their status beside HTTP's 200.
  select host, coalesce(pool, concat('requests in ', source)) as site,
    case when http_response_status_code < 500 then concat('gRPC status ', coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus'])) else cast(http_response_status_code as varchar) end as status, url_path, upstream_address,
    http_response_status_code < 300 and coalesce(http_request_method, 'POST') = 'POST'
      and (regexp_like(coalesce(coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']), ''), '^(4|13|14|15|DeadlineExceeded|Internal|Unavailable|DataLoss|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS)$')
        -- Envoy also says 2 (UNKNOWN) for what is no gRPC, or is gRPC-Web whose status is in the body.
        or coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']) in ('2', 'Unknown', 'UNKNOWN') and regexp_like(coalesce(url_path, ''), '^/[^/]+[.][^/]+/[^/]+$')
          and count(case when coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']) in ('0', 'OK', 'Ok') then 1 end) over (partition by host, source) > 0)
    or http_response_status_code >= 500 and http_response_status_code not in (502, 504)
      and coalesce(upstream_status_code = http_response_status_code, (http_response_status_code <> 503
          or program = 'envoy' and upstream_address is not null and attrs['response_flags'] is null)
        and count(upstream_status_code) over (partition by host, source) = 0) as is_error
  from seen
),
sites as (
  select host, site, count(*) as requests, count(*) filter (where is_error) as errors,
    count(distinct upstream_address) as members, count(distinct upstream_address) filter (where is_error) as bad_members
  from answered
  group by host, site
  having count(*) >= 20 and count(*) filter (where is_error) >= 10 and count(*) filter (where is_error) > 0.02 * count(*)
),
statuses as (
  select host, site, status, row_number() over (partition by host, site order by count(*) desc, status) as place
  from answered where is_error group by host, site, status
),
paths as (
  select host, site, url_path, count(*) as errors, row_number() over (partition by host, site order by count(*) desc, url_path) as place
  from answered where is_error group by host, site, url_path
),
-- The processes on this host that answered, where the proxy logs their addresses.
owners as (
  select host, cast(server_port as varchar) as port, max(process_name) as process_name
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now and process_name is not null
  group by host, server_port
),
programs as (
  select b.host, b.site, string_agg(distinct o.process_name, ', ') as process_name
  from (select distinct host, site, upstream_address from answered where is_error) b
  join owners o on o.host = b.host and regexp_like(b.upstream_address, '^(127\.|localhost:|\[::1\])')
    and o.port = regexp_match(b.upstream_address, ':([0-9]+)$')[1]
  group by b.host, b.site
),
past_rows as (
  select host, coalesce(pool, concat('requests in ', source)) as site, case when http_response_status_code < 300 and regexp_like(coalesce(coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']), ''), '^(4|13|14|15|DeadlineExceeded|Internal|Unavailable|DataLoss|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS)$') then 500 else http_response_status_code end as status from proxy_request
  where ts > $now - interval '630 seconds' and ts <= $now - interval '600 seconds'
  union all
  select host, coalesce(pool, concat('requests in ', source)) as site, case when http_response_status_code < 300 and regexp_like(coalesce(coalesce(attrs['grpc_status'], attrs['grpc-status'], attrs['grpc_status_code'], attrs['rpc.grpc.status_code'], attrs['grpcStatus']), ''), '^(4|13|14|15|DeadlineExceeded|Internal|Unavailable|DataLoss|DEADLINE_EXCEEDED|INTERNAL|UNAVAILABLE|DATA_LOSS)$') then 500 else http_response_status_code end as status from proxy_request
  where ts > $now - interval '3630 seconds' and ts <= $now - interval '3600 seconds'
),
past as (
  select host, site, cast(count(*) filter (where status >= 500 and status not in (502, 504)) as double) / count(*) as past_ratio
  from past_rows group by host, site having count(*) >= 20
)
select s.host, s.site, s.requests, s.errors, cast(s.errors as double) / s.requests as error_ratio, c.status, p.past_ratio, s.members, s.bad_members, g.process_name,
  case when t.errors > 0.8 * s.errors then concat(', nearly all for ', t.url_path) else '' end as path_text,
  case when s.members > 1 then concat(', from ', s.bad_members, ' of ', s.members, ' members') else '' end as member_text,
  case when p.past_ratio is null then 'no history to compare with'
       else concat('before: ', cast(round(1000 * p.past_ratio) / 10 as varchar), ' %') end as past_text,
  p.past_ratio is null or cast(s.errors as double) / s.requests > 3 * p.past_ratio as opens,
  case when s.errors > 0.1 * s.requests then 'page' else 'mail' end as class
from sites s
join statuses c on c.host = s.host and c.site = s.site and c.place = 1
left join programs g on g.host = s.host and g.site = s.site
left join paths t on t.host = s.host and t.site = s.site and t.place = 1
left join past p on p.host = s.host and p.site = s.site
