/*---
id = "app.closes_early"
title = "Application closes connections without a response"
tier = "app"
class = "mail"
for = "3s"
every = "3s"
clear = "30s"
key = ["upstream"]
prefers = ["mem.oom_kill", "app.segfault", "app.worker_timeout", "app.crash_loop", "proxy.keepalive_race", "proxy.keepalive_mismatch"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (message_template like 'upstream prematurely closed %' or message_template like 'recv() failed (104: %) while % upstream' or message_template like 'readv() failed (104: %) while % upstream' or message_template like 'send() failed (104: %) while % upstream' or message_template like 'writev() failed (%) while sending request to upstream' or message_template like 'sendfile() failed (%) while sending request to upstream' or message_template like 'send() failed (32: %) while % upstream') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH01102%' or body like 'AH10404%' or body like 'AH01110%' or body like 'AH01067%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (attrs['logger'] like 'http.log.error%' or body like '''50_ %'' caused by: %' or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout')) and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'Truncated or oversized response headers received from daemon process %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body = 'aborting with incomplete response' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where program = 'envoy' and (attrs['response_flags'] like '%UC%' or attrs['response_flags'] like '%UR%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where tier in ('proxy', 'edge') and (termination_state like 'SH%' or termination_state like 'SD%' or failure in ('empty_answer', 'answer_cut')) and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "proxy.bad_gateway", "proxy.masked_errors", "proxy.misconfigured", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.upstream_errors", "traffic.unusual",
]
subject = "{upstream}"
summary = "{upstream} closed {lines} connections of {program} on {host} in a minute {phase_text}; {share_text}"
why = "The connection was accepted and then closed or reset before the response was complete: a worker was killed or crashed while it worked (memory limit, worker timeout, segmentation fault), the application aborts, or it closes idle connections that the proxy still uses."
look_at = "The application's own log at the time of these lines: WORKER TIMEOUT, `killed by signal`, exited, out of memory. `dmesg` for segfault and oom-kill. Is it one path (`select url_path, count(*) from request where http_response_status_code = 502 group by 1`)?"
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults). Lines of visitors that left count as little (Caddy `writing: …`, Traefik `client disconnected`). Single lines are usual when a keep-alive connection is closed at its idle limit (proxy.keepalive_race)."
fix = "Find the worker's end in the application's log and repair that; for a worker that is killed at a time limit, the slow request behind it. Take the one path away that kills workers (`location = PATH { return 503; }`) until it is repaired. Check: the lines end."
source = "nginx ngx_http_upstream.c (prematurely closed connection); Apache mod_proxy_http.c AH01102, AH01110, AH10404; HAProxy documentation 8.5 (SH, SD); Caddy reverseproxy.go; Envoy response flags UC, UR; github.com/traefik/traefik #8608, github.com/caddyserver/caddy #5951"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.phase_text]
before = "before any response"
during = "in the middle of a response"
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
    case when body like '%while reading upstream' or body like 'AH01110%' then 'during' else 'before' end as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (message_template like 'upstream prematurely closed %' or message_template like 'recv() failed (104: %) while % upstream' or message_template like 'readv() failed (104: %) while % upstream' or message_template like 'send() failed (104: %) while % upstream' or message_template like 'writev() failed (%) while sending request to upstream' or message_template like 'sendfile() failed (%) while sending request to upstream' or message_template like 'send() failed (32: %) while % upstream')
      or program = 'apache' and coalesce(attrs['module'], 'proxy') like 'proxy%' and (body like 'AH01102%' and attrs['system_error'] not like '(70007)%' and attrs['system_error'] not like '(110)%' and attrs['system_error'] not like '(22)%' or body like 'AH10404%' or body like 'AH01110%' and attrs['system_error'] not like '(70007)%' or body like 'AH01067%'))
  union all
  select host, program, ts, concat('mod_wsgi ', regexp_match(body, '^Truncated [a-z ]+ ''([^'']{1,60})''')[1]) as upstream, 'before' as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'apache' and attrs['module'] = 'wsgi'
    and regexp_like(body, '^Truncated or oversized response headers received from daemon process ''[^'']{1,60}'': [^ ]+$')
  union all
  select host, program, ts, coalesce(regexp_match(reason, '^(?:read|write) (?:tcp|unix) [^ ]+->([^ ]+): ')[1], 'an upstream') as upstream, 'before' as variant
  from go_errors
  where regexp_like(reason, '^(EOF|unexpected EOF|http: server closed idle connection|net/http: HTTP/1[.]x transport connection broken: (unexpected )?EOF|(read|write) (tcp|unix) [^ ]+: (read|write): (connection reset by peer|broken pipe))$')
  union all
  -- `writing:` and a cancelled context are visitors that left.
  select host, 'caddy' as program, ts, coalesce(attrs['upstream'], 'an upstream') as upstream, 'during' as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and coalesce(program, '') in ('', 'other', 'caddy')
    and attrs['logger'] = 'http.handlers.reverse_proxy' and body = 'aborting with incomplete response'
    and regexp_like(attrs['error'], '^(reading: )?(unexpected EOF|stream error: stream ID [0-9]+; INTERNAL_ERROR; received from peer|read (tcp|unix) [^ ]+: read: connection reset by peer)$')
  union all
  select host, program, ts, coalesce(regexp_replace(upstream_address, '^[a-z]+://', ''), proxy_backend, attrs['upstream_cluster'], 'an upstream') as upstream, 'before' as variant
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and program = 'envoy' and regexp_like(attrs['response_flags'], '(^|,)(UC|UR)(,|$)')
  union all
  select host, coalesce(program, 'the proxy') as program, ts, coalesce(case when proxy_server is not null then concat(proxy_backend, '/', proxy_server) end, upstream_address, 'an upstream') as upstream, case when termination_state like 'SD%' or failure = 'answer_cut' then 'during' else 'before' end as variant
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now and (termination_state like 'SH%' or termination_state like 'SD%' or failure in ('empty_answer', 'answer_cut'))
),
failing as (
  select host, program, upstream, min(variant) as variant, count(*) as lines
  from lines
  group by host, program, upstream
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
  case f.variant when 'before' then 'before' else 'during' end as phase_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
