/*---
id = "proxy.bad_gateway"
title = "Visitors get 502, 503, 504 or no answer"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "20s"
key = ["program", "site"]
prefers = [
  "app.down", "app.socket_backlog_full", "proxy.upstream_denied", "proxy.header_too_big", "proxy.protocol_mismatch",
  "proxy.upstream_unresolved", "app.code_incomplete", "app.crash_loop", "app.segfault", "app.cannot_write", "app.service_rejects", "app.service_unreachable", "app.workers_exhausted", "app.worker_timeout",
  "proxy.upstream_timeout", "app.closes_early", "proxy.no_live_upstreams",
]
needs = ["request", "log"]
when = [
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now
  and (http_response_status_code in (502, 503, 504, 499) or http_response_status_code < 100 or http_response_status_code is null
    or http_response_status_code = 500 and upstream_status_code is null
    or termination_state like 'S%' or termination_state like 's%' or failure is not null)
limit 1""",
  """
select 1 from request
where ts > $now - interval '5 minutes' and ts <= $now and tier in ('proxy', 'edge', 'wire_edge')
group by host, source, coalesce(nullif(proxy_backend, ''), server_address)
having 33 * count(*) filter (where http_response_status_code in (502, 503, 504, 499) or http_response_status_code < 100 or http_response_status_code is null
    or http_response_status_code = 500 and upstream_status_code is null
    or termination_state like 'S%' or termination_state like 's%' or failure is not null) >= count(*)
  or 33 * count(*) filter (where ts > $now - interval '30 seconds' and (http_response_status_code in (502, 503, 504, 499) or http_response_status_code < 100 or http_response_status_code is null
    or http_response_status_code = 500 and upstream_status_code is null
    or termination_state like 'S%' or termination_state like 's%' or failure is not null))
    >= greatest(count(*) filter (where ts > $now - interval '30 seconds'), 33)
limit 1""",
]
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "traffic.unusual", "slo.burning",
]
subject = "{site} on {host}"
summary = "{site} on {host}: {failed} of {requests} requests failed at {program} in {window} ({failed_ratio:%}), mostly {kind}; {line_text}{doubt_text}"
why = "The proxy answers for an application that it cannot reach, that gives no usable answer, or that is too slow for its limits; or it fails itself, before it asks the application (500 without an upstream's status: connections or descriptors used up, a directory that it may not write, an error of a module). Each of these requests is a visitor who gets an error page. The status shows only that it failed; the reason is in the proxy's error log."
look_at = "The error log of {program} on {host}: `select body, attrs['upstream'], count(*) from log where program = '{program}' and ts > now() - interval '5 minutes' group by 1, 2 order by 3 desc`. Which paths: `select url_path, http_response_status_code, count(*) from request … group by 1, 2`. Then the application's own log at that time."
silent_when = "Fewer than 10 failures among 20 requests in 30 s, or at most 3 % of them; on a quiet site fewer than 5 failures or less than 20 % in 5 minutes (and in its last one); all failures within 5 s (a restart). It is a page from 20 %. It stays a mail if at most 3 client addresses have all the failures and nothing but failures, while 10 others are served (a bot at a broken path); if nearly all are 503 without a line about an upstream (maintenance or a limit on purpose, or the application sends 503 itself: the log's format cannot tell; Varnish's own 503 is always a failed fetch); and if they are 499 of unknown duration, which count only from half of all requests. A 500 counts only without an upstream's status, where the log has that status for other requests. Requests of a capture count only on a host without a proxy's log, and only with a status. Not counted: health checks (by user agent or path), 503 that the log shows to come from the application (app.errors; with Envoy: no response flag) or from HAProxy's own rules, and clients that leave within 5 s. The shares are defaults."
fix = "{fix_text} Check: the share of 502, 503 and 504 is back to zero. Do not raise the proxy's timeouts: visitors then wait longer for the same error."
source = "RFC 9110, 15.6.3 to 15.6.5; nginx ngx_http_upstream.c; HAProxy documentation 8.5, termination states; Envoy access log, response flags; nginx 499 in ngx_http_request.h"
[text.line_text]
known = "{lines} times in its log: \"{line}\"{upstream_part}"
unknown = "its error log has no reason{server_part}"
[text.doubt_text]
none = ""
bot = "; all of them for {failing_clients} client addresses, others are served"
purpose = "; cannot tell whether 503 is on purpose"
unsure = "; cannot tell how long they waited: the log has no times"
limit = "; its own limit rejects them"
[text.fix_text]
known = "Repair what the line names{upstream_part}: a process that does not run, a socket that it may not open, a limit that is full, an application that is too slow. Findings on that upstream name the cause."
unknown = "Ask the application directly from {host} (`curl -v` at its address or `--unix-socket`): it does not answer, or it answers what {program} does not accept. If {program} logs no errors, set its error log to level `error` in a file that weir reads."
purpose = "If a maintenance page is on purpose, judge this finding as not actionable and end it when the work ends. If not, ask the application directly from {host} (`curl -v`): either it sends 503 itself, or a limit of {program} rejects the request."
limit = "The limit (`limit_req`, `limit_conn`) rejects these requests. If they are an attack, it works. If they are visitors, raise `rate` or `burst` of the zone that the line names."
[chart]
title = "Requests, and those answered with 502, 503 or 504"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, count(*) as requests,
  count(*) filter (where http_response_status_code in (502, 503, 504)) as failed
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with logged as (
  select distinct host as logged_host from request
  where tier in ('proxy', 'edge') and ts > $now - interval '5 minutes' and ts <= $now
),
statuses as (
  -- Logs that have the status of an upstream.
  select host, source from request
  where tier = 'proxy' and ts > $now - interval '5 minutes' and ts <= $now and upstream_status_code is not null
  group by host, source
),
seen as (
  select tier, host, program, source, ts, client_address, user_agent_original, http_request_method, url_path, server_address, proxy_backend, proxy_server, upstream_address,
    http_response_status_code, upstream_status_code, termination_state, failure, duration_seconds, attrs
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '5 minutes' and ts <= $now
  union all
  -- Requests seen in packets only, on a host without a proxy's log.
  select tier, host, program, source, ts, client_address, user_agent_original, http_request_method, url_path, server_address, proxy_backend, proxy_server, upstream_address,
    http_response_status_code, upstream_status_code, termination_state, failure, duration_seconds, attrs
  from request
  left join logged on logged_host = host
  where tier = 'wire_edge' and logged_host is null and http_response_status_code is not null and ts > $now - interval '5 minutes' and ts <= $now
),
judged as (
  select r.host, coalesce(program, 'the proxy') as program, r.source, ts, client_address,
    coalesce(case when proxy_server is not null then concat(proxy_backend, '/', proxy_server) end, upstream_address) as member,
    coalesce(nullif(proxy_backend, ''), server_address) as named,
    case
      when http_response_status_code = 503
        and (upstream_status_code = 503 or program = 'envoy' and upstream_address is not null and attrs['response_flags'] is null or termination_state like '--%' or termination_state like 'L%' or termination_state like 'PR%') then null
      when http_response_status_code in (502, 503, 504) then
        concat_ws(' ', http_response_status_code, case when failure is not null then concat('(', failure, ')')
          when termination_state like 'S%' or termination_state like 's%' then concat('(', substr(termination_state, 1, 2), ')')
          when attrs['response_flags'] is not null then concat('(', attrs['response_flags'],
            case split_part(attrs['response_flags'], ',', 1) when 'UH' then ': no healthy upstream' when 'UF' then ': connection to the upstream failed' when 'UO' then ': circuit breaker open'
              when 'UT' then ': upstream timeout' when 'UC' then ': upstream closed the connection' when 'UR' then ': upstream reset the request' when 'URX' then ': retries or connects used up' when 'LR' then ': reset by Envoy'
              when 'NC' then ': cluster unknown' when 'NR' then ': no route' when 'UPE' then ': upstream breaks the protocol' when 'DPE' then ': client breaks the protocol' when 'UMSDR' then ': longest duration reached'
              when 'DT' then ': longest duration reached' when 'OM' then ': overload manager' when 'UAEX' then ': denied by the authorization service' when 'LH' then ': health check of Envoy failed' when 'DF' then ': name resolution failed' else '' end, ')') end)
      when http_response_status_code = 500 and upstream_status_code is null and termination_state is null and failure is null
        and u.source is not null then '500 of the proxy itself'
      when http_response_status_code < 100 then 'no valid HTTP response'
      when termination_state like 'S%' or termination_state like 's%' or failure = 'answer_cut' then 'a response cut off'
      when http_response_status_code = 499 and duration_seconds is null then '499'
      when (http_response_status_code = 499 or termination_state like 'CH%' or termination_state like 'CC%' or termination_state like 'CQ%' or failure = 'client_closed')
        and duration_seconds >= 5.0 then 'no answer until the client left'
      when http_response_status_code is null and http_request_method is not null and termination_state is null and coalesce(failure, '') not like 'client%'
        and coalesce(failure, '') <> 'bad_request' and (coalesce(program, '') <> 'envoy' or duration_seconds >= 5.0) then 'no answer'
    end as kind
  from seen r
  left join statuses u on u.host = r.host and u.source = r.source
  where coalesce(url_path, '') not in ('/health', '/healthz', '/livez', '/readyz', '/healthcheck', '/health-check', '/-/healthy', '/-/ready', '/ping', '/nginx_status', '/server-status', '/haproxy_stats')
    and coalesce(user_agent_original, '') not like 'ELB-HealthChecker%' and coalesce(user_agent_original, '') not like 'kube-probe%'
    and coalesce(user_agent_original, '') not like 'GoogleHC%' and coalesce(user_agent_original, '') not like 'Consul Health Check%'
),
scopes as (
  select host, program, coalesce(named, concat('requests in ', source)) as site, coalesce(named, '') as named, ts, client_address, member, kind from judged
  union all
  select host, program, concat('requests in ', source) as site, '' as named, ts, client_address, member, kind from judged where named is not null
),
counted as (
  select host, program, site, named,
    count(*) filter (where ts > $now - interval '30 seconds') as requests_30,
    count(kind) filter (where ts > $now - interval '30 seconds') as failed_30,
    count(*) filter (where ts > $now - interval '60 seconds') as requests_60,
    count(kind) filter (where ts > $now - interval '60 seconds') as failed_60,
    count(*) as requests_300, count(kind) as failed_300,
    max(case when kind is not null then ts end) as last_ts, min(case when kind is not null then ts end) as first_ts
  from scopes
  group by host, program, site, named
),
failing as (
  select host, program, site, named,
    requests_30 >= 20 and failed_30 >= 10 and failed_30 > 0.03 * requests_30 as is_fast,
    case when requests_30 >= 20 and failed_30 >= 10 and failed_30 > 0.03 * requests_30 then requests_30 else requests_300 end as requests,
    case when requests_30 >= 20 and failed_30 >= 10 and failed_30 > 0.03 * requests_30 then failed_30 else failed_300 end as failed
  from counted
  where date_part('epoch', last_ts) - date_part('epoch', first_ts) > 5
    and (requests_30 >= 20 and failed_30 >= 10 and failed_30 > 0.03 * requests_30
      or failed_300 >= 5 and failed_300 >= 0.2 * requests_300 and failed_60 >= 1 and failed_60 >= 0.2 * requests_60)
),
kinds as (
  select s.host, s.program, s.site, s.kind, count(*) as failures,
    row_number() over (partition by s.host, s.program, s.site order by count(*) desc, s.kind) as place
  from scopes s
  join failing f on f.host = s.host and f.program = s.program and f.site = s.site
  where s.kind is not null and (not f.is_fast or s.ts > $now - interval '30 seconds')
  group by s.host, s.program, s.site, s.kind
),
members as (
  select s.host, s.program, s.site, s.member,
    row_number() over (partition by s.host, s.program, s.site order by count(*) desc, s.member) as place
  from scopes s
  join failing f on f.host = s.host and f.program = s.program and f.site = s.site
  where s.kind is not null and s.member is not null
  group by s.host, s.program, s.site, s.member
),
clients as (
  select s.host, s.program, s.site, s.client_address, count(*) as requests, count(s.kind) as failures
  from scopes s
  join failing f on f.host = s.host and f.program = s.program and f.site = s.site
  where s.client_address is not null
  group by s.host, s.program, s.site, s.client_address
),
sides as (
  select host, program, site, count(*) filter (where failures > 0) as failing_clients,
    count(*) filter (where failures > 0 and failures < requests) as mixed_clients,
    count(*) filter (where failures = 0) as served_clients
  from clients
  group by host, program, site
),
spoken as (
  select host, case when attrs['logger'] like 'http.log.error%' then 'caddy' when body like '50_ %' or body like '''50_ %' then 'traefik' else program end as program,
    coalesce(case when program = 'nginx' then coalesce(nullif(attrs['server'], ''), attrs['host']) end, '') as named,
    case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      when program = 'apache' then regexp_match(body, '(attempt to connect to|remote server|body failed to|lookup failure for:) ([^ ]+)')[2]
      when attrs['logger'] is not null or attrs['error'] is not null or body like '''50%' then regexp_match(coalesce(attrs['error'], body), 'dial (?:tcp|unix) ([^ ]+): ')[1]
      else regexp_match(body, '([Ss]erver|backend) ''?([^ '']+)''? (is|has)')[2]
    end as upstream,
    body like 'limiting %' as is_limit,
    substr(regexp_replace(regexp_replace(regexp_replace(concat_ws(': ', attrs['system_error'], body, case when body like '50_ %' then attrs['error'] end), ' returned by .*$', ''), '"[^"]*"', '"…"', 'g'), '''[^'']*''', '''…''', 'g'), 1, 160) as line
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (message_template like '% upstream' or message_template like 'limiting %' or regexp_like(message_template, '^[A-Za-z0-9._…-]+ could not be resolved [(]'))
      or program = 'apache' and attrs['module'] like 'proxy%' and severity in ('error', 'critical', 'alert', 'emergency', 'warn')
        and body not like 'AH01114%' and body not like 'AH01079%' and body not like 'AH00940%' and body not like 'AH00898: Error reading%'
      or program = 'haproxy' and (message_template like '%erver % is DOWN%' or message_template like '%has no server available!')
      or coalesce(program, '') in ('', 'other', 'caddy') and attrs['logger'] like 'http.log.error%' and attrs['status'] in ('502', '503', '504')
      or coalesce(program, '') in ('', 'other', 'traefik') and (regexp_like(body, '^''50[024] [A-Z][A-Za-z ]+'' caused by: ') or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and attrs['error'] is not null))
),
quoted as (
  select host, program, named, upstream, line, is_limit, count(*) as lines from spoken group by host, program, named, upstream, line, is_limit
),
ranked as (
  select *, row_number() over (partition by host, program, named order by lines desc, line) as place from quoted
),
overall as (
  select *, row_number() over (partition by host, program order by lines desc, line) as place from quoted
),
told as (
  select f.*, k.kind, k.failures, coalesce(r.line, o.line) as line, coalesce(r.lines, o.lines) as lines,
    coalesce(r.is_limit, o.is_limit, false) as is_limit,
    case when r.line is not null then r.upstream when m.member is not null then m.member else o.upstream end as upstream,
    coalesce(s.failing_clients, 0) as failing_clients, coalesce(s.mixed_clients, 0) as mixed_clients, coalesce(s.served_clients, 0) as served_clients
  from failing f
  join kinds k on k.host = f.host and k.program = f.program and k.site = f.site and k.place = 1
  left join members m on m.host = f.host and m.program = f.program and m.site = f.site and m.place = 1
  left join sides s on s.host = f.host and s.program = f.program and s.site = f.site
  left join ranked r on r.host = f.host and r.program = f.program and r.named = f.named and f.named <> '' and r.place = 1
  left join overall o on o.host = f.host and o.program = f.program and o.place = 1
),
doubts as (
  select *,
    case
      when kind = '499' then 'unsure'
      when is_limit and kind = '503' then 'limit'
      -- Varnish answers 503 by itself only where a fetch failed.
      when kind = '503' and line is null and upstream is null and failures > 0.8 * failed and program not like 'varnish%' then 'purpose'
      when failing_clients between 1 and 3 and mixed_clients = 0 and served_clients >= 10 then 'bot'
      else 'none'
    end as doubt
  from told
  where kind <> '499' or 2 * failures >= requests
)
select d.host, d.program, d.site, d.requests, d.failed, cast(d.failed as double) / d.requests as failed_ratio, d.kind, d.line, d.lines,
  d.upstream as failing_upstream, d.failing_clients, d.served_clients,
  case when d.is_fast then '30 s' else '5 minutes' end as window,
  case when d.upstream is null then '' else concat(' at ', d.upstream) end as upstream_part,
  case when d.upstream is null then '' else concat(' (server ', d.upstream, ')') end as server_part,
  case when d.line is null then 'unknown' else 'known' end as line_text,
  case d.doubt when 'unsure' then 'unsure' when 'limit' then 'limit' when 'purpose' then 'purpose' when 'bot' then 'bot' else 'none' end as doubt_text,
  case when d.doubt = 'purpose' then 'purpose' when d.doubt = 'limit' then 'limit' when d.line is null then 'unknown' else 'known' end as fix_text,
  case
    when d.doubt = 'limit' and d.failing_clients <= 3 then 'note'
    when d.doubt = 'none' and d.failed >= 0.2 * d.requests then 'page'
    else 'mail'
  end as class
from doubts d
where d.named <> '' or not exists (
  select 1 from doubts n where n.host = d.host and n.program = d.program and n.named <> '' and n.failed >= 0.5 * d.failed)
