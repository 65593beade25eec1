/*---
id = "proxy.upstream_timeout"
title = "Proxy timed out waiting for an upstream"
tier = "app"
class = "mail"
for = "3s"
every = "3s"
clear = "30s"
key = ["upstream", "variant"]
prefers = ["app.workers_exhausted", "app.worker_timeout", "tcp.listen_overflow", "wire.syn_blackhole", "wire.host_unreachable", "pg.lock_pileup", "db.not_answering", "db.connections_exhausted", "app.blocked_on_store"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (body like 'upstream timed out (%) while % upstream') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and ((body like 'AH01102%' or body like 'AH01075%' or body like 'AH00957%' or body like 'AH02454%' or body like 'AH01110%')) and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (attrs['logger'] like 'http.log.error%' or body like '''50_ %'' caused by: %' or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout')) and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'Timeout when reading response headers from daemon process %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where program = 'envoy' and (attrs['response_flags'] like '%UT%' or attrs['response_flags'] like '%UF%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where tier in ('proxy', 'edge') and (termination_state like 'sC%' or termination_state like 'sH%' or termination_state like 'sD%' or failure in ('connect_timeout', 'response_timeout', 'backend_stalled')) and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "app.throughput_drop",
  "client.aborts_499", "proxy.bad_gateway", "proxy.masked_errors", "proxy.misconfigured",
  "proxy.no_live_upstreams", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.worker_connections", "traffic.unusual", "slo.burning", "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "{upstream} times out for {program} on {host}: {lines} requests in a minute, {phase_text}; {share_text}"
why = "{why_text}"
look_at = "Findings on the application's host first: its database, CPU, memory, worker limits. In the application: which requests are in progress, and what do they wait for (a thread dump, `SHOW PROCESSLIST`, `pg_stat_activity`)? Is it one path: `select url_path, count(*) from request where http_response_status_code = 504 group by 1`?"
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults). Reports and uploads that take longer than the limit on purpose look the same: set another limit for their path."
fix = "{fix_text} Check: the timeouts end and requests to {upstream} are fast again."
source = "nginx ngx_http_upstream.c (connect_timeout, read_timeout); Apache mod_proxy_http.c AH01102; mod_wsgi mod_wsgi.c; HAProxy documentation 8.5 (sC, sH, sD); Go net/http transport.go; Envoy response flag UT"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.phase_text]
connect = "no connection within the limit"
header = "no response within the limit"
body = "the response stopped in the middle"
[text.why_text]
connect = "Nothing answers the SYN: the host is gone, a firewall drops the packets, or the accept queue is full because the application does not accept. The proxy waits for the whole limit and then answers 504."
header = "The upstream accepts the request and does not answer within the proxy's limit: its workers are busy, wait for a database or a lock, or hang. The visitor waits for the whole limit and then gets 504."
body = "The upstream began its response and then sent nothing for as long as the proxy's limit. The visitor gets half a page."
[text.fix_text]
connect = "See whether {upstream} is reachable from {host} (`nc -vz`), whether its process accepts (`ss -lnt`: Recv-Q against Send-Q), and whether a firewall drops. Take it out of the pool meanwhile; a connect limit of 1 to 3 s (`proxy_connect_timeout`, HAProxy `timeout connect`) sends visitors to the next member sooner."
header = "Find what the application waits for and end that. Until then reduce load: return a cached or static page for the slow path, or limit requests to it. Do not raise the limit: more requests would wait, and a worker that hangs would be held for longer."
body = "Find what interrupts the application while it writes: a lock, a slow query behind a stream, a full disk."
---*/
with go_errors as (
  -- Caddy and Traefik log Go's error of the attempt.
  select host, case when attrs['logger'] is not null then 'caddy' else 'traefik' end as program, ts,
    case when attrs['logger'] is not null then body when body like '''50%' then regexp_match(body, '^''[^'']+'' caused by: (.*)$')[1] else attrs['error'] end as reason
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and coalesce(program, '') in ('', 'other', 'caddy', 'traefik') and (attrs['logger'] like 'http.log.error%' and attrs['status'] in ('502', '503', '504')
      or regexp_like(body, '^''50[024] [A-Z][A-Za-z ]+'' caused by: ') or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and attrs['error'] is not null)
),
lines as (
  select host, program, ts, case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else coalesce(regexp_match(body, '(attempt to connect to|remote server|body failed to) ([^ ]+)')[2], 'an upstream')
    end as upstream,
    case when body like '%while connecting to upstream' or body like '%while SSL handshaking to upstream' or body like 'AH00957%' or body like 'AH02454%' then 'connect'
      when body like '%while reading upstream' or body like 'AH01110%' then 'body' else 'header' end as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (body like 'upstream timed out (%) while % upstream')
      or program = 'apache' and ((attrs['system_error'] like '(70007)%' or attrs['system_error'] like '(110)%') and (body like 'AH01102%' or body like 'AH01075%' or body like 'AH00957%' or body like 'AH02454%' or body like 'AH01110%')))
  union all
  select host, program, ts, concat('mod_wsgi ', regexp_match(body, '^Timeout [a-z ]+ ''([^'']{1,60})''')[1]) as upstream, 'header' as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'apache' and attrs['module'] = 'wsgi'
    and regexp_like(body, '^Timeout when reading response headers from daemon process ''[^'']{1,60}'': [^ ]+$')
  union all
  select host, program, ts, coalesce(regexp_match(reason, '^dial (?:tcp|unix) ([^ ]+): ')[1], 'an upstream') as upstream,
    case when reason like 'dial %' then 'connect' else 'header' end as variant
  from go_errors
  where regexp_like(reason, '^(dial (tcp|unix) [^ ]+: (i/o timeout|connect: (connection timed out|no route to host|host is unreachable))|net/http: timeout awaiting response headers|context deadline exceeded( [(]Client[.]Timeout exceeded while awaiting headers[)])?)$')
  union all
  select host, program, ts, coalesce(regexp_replace(upstream_address, '^[a-z]+://', ''), proxy_backend, attrs['upstream_cluster'], 'an upstream') as upstream,
    case when attrs['response_flags'] like '%UT%' then 'header' else 'connect' end as variant
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and program = 'envoy'
    and (regexp_like(attrs['response_flags'], '(^|,)UT(,|$)') or attrs['response_flags'] like '%UF%' and attrs['response_code_details'] like '%connection_timeout%')
  union all
  select host, coalesce(program, 'the proxy') as program, ts, coalesce(case when proxy_server is not null then concat(proxy_backend, '/', proxy_server) end, upstream_address, 'an upstream') as upstream, case when termination_state like 'sC%' or failure = 'connect_timeout' then 'connect' when termination_state like 'sD%' then 'body' else 'header' end as variant
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now and (termination_state like 'sC%' or termination_state like 'sH%' or termination_state like 'sD%' or failure in ('connect_timeout', 'response_timeout', 'backend_stalled'))
),
failing as (
  select host, program, upstream, variant, count(*) as lines
  from lines
  group by host, program, upstream, variant
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
answers as (
  select host, program, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or http_response_status_code < 100
      or termination_state like 'S%' or termination_state like 's%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host, program
)
select f.host, f.program, f.upstream, f.variant, f.lines, a.requests, a.failed, cast(a.failed as double) / a.requests as failed_ratio,
  case when a.requests is null then 'unknown' else 'known' end as share_text,
  f.variant as phase_text, f.variant as why_text, f.variant as fix_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
