/*---
id = "app.down"
title = "Upstream down: connections refused"
tier = "app"
class = "mail"
for = "4s"
every = "5s"
clear = "15s"
key = ["upstream"]
prefers = ["mem.oom_kill"]
needs = ["log", "request", "listener", "config_directive", "kmsg"]
when = """
select 1 from log where program = 'nginx' and message_template like '%while connecting to upstream' and ts > $now - interval '20 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH00957%' or body like 'AH02454%') and ts > $now - interval '20 seconds' and ts <= $now
union all select 1 from log where (attrs['logger'] like 'http.log.error%' or body like '''50_ %'' caused by: %' or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout')) and ts > $now - interval '20 seconds' and ts <= $now
union all select 1 from log where (body like '%.c.%) %establishing connection failed: %' or body like '%gw_backend.c.%) connect() %') and ts > $now - interval '20 seconds' and ts <= $now
union all select 1 from request where program = 'envoy' and attrs['response_flags'] like '%UF%' and ts > $now - interval '20 seconds' and ts <= $now
union all select 1 from log where program = 'haproxy' and message_template like '%is DOWN%' and ts > $now - interval '10 minutes' and ts <= $now
union all select 1 from request where tier = 'edge' and failure = 'connect_refused' and ts > $now - interval '20 seconds' and ts <= $now limit 1"""
explains = [
  "app.error_outlier", "app.errors_quiet", "app.requests_stopped", "app.throughput_drop",
  "client.aborts_499", "edge.ramp_too_fast", "lb.canary_oscillation", "lb.too_few_healthy",
  "lb.uneven", "proxy.backend_down", "proxy.bad_gateway", "proxy.haproxy_queue",
  "proxy.masked_errors", "proxy.misconfigured", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.retry_storm", "proxy.upstream_errors", "traffic.unusual",
  "slo.burning", "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "{upstream} refuses connections from {program} on {host} ({refusals_text}){listen_text}{over_text}; {errors} requests got 502 or 503"
why = "The address answers at once with a reset (or the socket's file is missing): host and network are fine, but no process listens there. It crashed, was stopped, listens on another port, or is not ready yet."
look_at = "Is it running (`systemctl status`), and if not, why did it exit: its own log, mem.oom_kill, app.segfault, a deploy. On its host, `select ts, process_name from listener where server_port = …` shows when it stopped listening."
silent_when = "Fewer than 3 refusals in 20 s, or all of them within 3 s (a restart is no outage). Over, and a note: no refusal for 3 s while the process listens again or the upstream answers requests (without its address in the log: pages that were refused are answered), or none for 12 s. Where the log names the upstream of a request, only its own failed requests count. HAProxy: its last health check within 10 minutes counts, and is overridden when the server answers requests again (a reload forgets what was down). Apache, Caddy and Traefik (whose level is `debug` for these): lines of their error logs, as for nginx; Envoy: requests whose details name errno 111. Refusals that no proxy logged do not count: port scans get resets on closed ports all day. nginx must log at level `error` (its default) or more. It is a page when clients got errors, a mail while other members take over, and a note when `localhost` also resolves to ::1 and the application listens on IPv4 only. An OOM kill or crash explains it only if the process names match, where both are known."
fix = "Find out why {upstream} exited, start it again and keep it running (systemd: `Restart=on-failure`, `RestartSec=1`). If it now listens elsewhere, correct {place}; nginx looks a name up once, when it starts: `nginx -s reload`. Let the proxy skip a dead member: nginx `server ADDRESS max_fails=3 fail_timeout=10s;`, HAProxy `check` in its `server` line. Check: refusals end and the listener is back. Do not restart the proxy: it works."
source = "fault lab F32b (reset in 0 ms); nginx ngx_connection.c; connect(2) ECONNREFUSED"
[text.refusals_text]
counted = "{refusals} times in 20 s"
checked = "by health check"
[text.over_text]
no = ""
yes = "; over after {lasted_seconds:.0} s"
[chart]
title = "Requests answered with 502 or 503"
unit = ""
sql = """
select date_bin(interval '5 seconds', ts) as ts, count(*) filter (where http_response_status_code in (502, 503)) as errors, count(*) as requests
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '10 minutes' and ts <= $now group by 1 order by 1"""
---*/
with go_errors as (
  -- Caddy and Traefik log Go's error of the attempt.
  select host, case when attrs['logger'] is not null then 'caddy' else 'traefik' end as program, ts,
    case when attrs['logger'] is not null then body when body like '''50%' then regexp_match(body, '^''[^'']+'' caused by: (.*)$')[1] else attrs['error'] end as reason
  from log
  where ts > $now - interval '20 seconds' and ts <= $now
    and coalesce(program, '') in ('', 'other', 'caddy', 'traefik') and (attrs['logger'] like 'http.log.error%' and attrs['status'] in ('502', '503', '504')
      or regexp_like(body, '^''50[024] [A-Z][A-Za-z ]+'' caused by: ') or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and attrs['error'] is not null)
),
lines as (
  select host, program, ts, regexp_match(attrs['request'], '^[A-Z]+ ([^ ?]+)')[1] as url_path,
    case when attrs['upstream'] like '%://unix:%' then regexp_match(attrs['upstream'], '(unix:[^:]+)')[1]
         else coalesce(regexp_match(attrs['upstream'], '://([^/]+)')[1], attrs['upstream']) end as upstream
  from log
  where ts > $now - interval '20 seconds' and ts <= $now
    and program = 'nginx' and message_template like 'connect() %) while connecting to upstream'
    and (message_template like '%failed (111: %' or message_template like '%failed (2: %')
  union all
  select host, program, ts, null as url_path, case when body like '%Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else regexp_match(body, 'attempt to connect to ([^ ]+)')[1] end as upstream
  from log
  where ts > $now - interval '20 seconds' and ts <= $now and program = 'apache' and (body like 'AH00957%' or body like 'AH02454%')
    and (attrs['system_error'] like '(111)%' or attrs['system_error'] like '(2)%')
  union all
  select host, 'lighttpd' as program, ts, null as url_path, regexp_replace(regexp_match(body, ' (?:socket:|connect[(][)]) ?((?:tcp:|unix:|/)[^ ]+?)(?::? |$)')[1], '^tcp:', '') as upstream
  from log
  where ts > $now - interval '20 seconds' and ts <= $now and coalesce(program, '') in ('', 'other', 'lighttpd')
    and regexp_like(body, '^([0-9-]+ [0-9:]+: )?[(]([^ )]*/)?(gw_backend|mod_proxy|mod_fastcgi|mod_scgi)[.]c[.][0-9]+[)] (\[[a-z]+\] )?(establishing connection failed: (socket: [^ ]+: )?|connect[(][)] [^ ]+: )(Connection refused|No such file or directory)')
  union all
  select host, program, ts, null as url_path, coalesce(regexp_match(reason, '^dial tcp ([^ ]+): connect: connection refused$')[1],
    regexp_match(reason, '^dial (unix [^ ]+): connect: (connection refused|no such file or directory)$')[1]) as upstream
  from go_errors
  union all
  select host, program, ts, null as url_path, regexp_replace(upstream_address, '^[a-z]+://', '') as upstream
  from request
  where ts > $now - interval '20 seconds' and ts <= $now and tier = 'proxy' and program = 'envoy' and attrs['response_flags'] like '%UF%'
    and regexp_like(concat_ws(' ', attrs['response_code_details'], attrs['upstream_transport_failure_reason']), 'connect[_ ]error:[_ ]111|[Cc]onnection[_ ]refused')
),
checks as (
  select host, ts, regexp_match(message_template, 'erver ([^ ]+) is ')[1] as upstream, message_template,
    row_number() over (partition by host, regexp_match(message_template, 'erver ([^ ]+) is ')[1] order by ts desc) as place
  from log
  where ts > $now - interval '10 minutes' and ts <= $now
    and program = 'haproxy' and (message_template like '%erver % is DOWN%' or message_template like '%erver % is UP%')
),
revived as (
  select host, concat(proxy_backend, '/', proxy_server) as server, max(ts) as last_ts
  from request
  where ts > $now - interval '30 seconds' and ts <= $now and program = 'haproxy' and http_response_status_code < 500 and proxy_server is not null
  group by 1, 2
),
refused as (
  select host, program, upstream, count(*) as refusals, min(ts) as first_ts, max(ts) as last_ts
  from lines
  where upstream is not null
  group by host, program, upstream
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select host, 'haproxy' as program, upstream, 1 as refusals, ts as first_ts, $now as last_ts
  from checks
  where place = 1 and upstream is not null and message_template like '%is DOWN%' and message_template like '%onnection refused%'
    and not exists (select 1 from revived v where v.host = checks.host and v.server = checks.upstream and v.last_ts > checks.ts + interval '2 seconds')
  union all
  select host, 'weir edge' as program, upstream_address as upstream, count(*) as refusals, min(ts) as first_ts, max(ts) as last_ts
  from request
  where tier = 'edge' and failure = 'connect_refused' and upstream_address is not null and ts > $now - interval '20 seconds' and ts <= $now
  group by host, upstream_address
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
-- By upstream where the log names it; an address without a port is a pool, or unknown.
answers as (
  select host, case when program = 'haproxy' then 'haproxy' when tier = 'edge' then 'weir edge' else coalesce(program, 'nginx') end as program,
    case when program = 'haproxy' then coalesce(proxy_backend, '') else coalesce(upstream_address, '') end as address,
    count(*) filter (where http_response_status_code in (502, 503)) as errors,
    max(case when upstream_status_code < 500 or upstream_status_code is null and http_response_status_code < 500 then ts end) as answered_ts
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '20 seconds' and ts <= $now
  group by 1, 2, 3
),
hit as (
  select r.host, r.program, r.upstream,
    sum(case when a.address = r.upstream or r.program = 'haproxy' and a.address = split_part(r.upstream, '/', 1) or a.address not like '%:%' and r.program <> 'haproxy' then a.errors else 0 end) as errors,
    max(case when a.address = r.upstream then a.answered_ts end) as answered_ts
  from refused r
  join answers a on a.host = r.host and a.program = r.program
  group by r.host, r.program, r.upstream
),
-- Where the log names no upstream: a page that was refused is answered again.
answered_pages as (
  select host, url_path, max(ts) as answered_ts
  from request
  where tier = 'proxy' and program = 'nginx' and http_response_status_code < 500 and coalesce(upstream_address, '') not like '%:%'
    and ts > $now - interval '20 seconds' and ts <= $now
  group by host, url_path
),
recovered as (
  select l.host, l.program, l.upstream, max(p.answered_ts) as answered_ts
  from (select distinct host, program, upstream, url_path from lines where url_path is not null) l
  join answered_pages p on p.host = l.host and p.url_path = l.url_path
  group by l.host, l.program, l.upstream
),
-- A loopback address other than 127.0.0.1 is a separate socket: who listens on it or on all addresses.
places as (
  select host, server_port, replace(server_address, '::ffff:', '') as address, max(process_name) as process_name, max(ts) as last_ts
  from listener
  where ts > $now - interval '10 minutes' and ts <= $now
  group by host, server_port, address
),
local as (
  select distinct r.host, r.upstream, p.address, p.process_name, p.last_ts, p.server_port,
    r.upstream like '[::1]:%' or p.address not like '127.%' or concat(p.address, ':', p.server_port) = r.upstream as is_there
  from refused r
  join places p on p.host = r.host and (r.upstream like '127.%' or r.upstream like '[::1]:%') and cast(p.server_port as varchar) = regexp_match(r.upstream, ':([0-9]+)$')[1]
),
listening as (
  select host, upstream, max(process_name) as process_name, max(last_ts) as last_ts from local where is_there group by host, upstream
),
moved as (
  select host, upstream, max(concat(process_name, ' listens on ', address, ':', server_port)) as elsewhere
  from local
  where not is_there and last_ts > $now - interval '5 seconds'
  group by host, upstream
),
ended as (
  select distinct host, kind, subject as process_name
  from kmsg
  where kind in ('oom_kill', 'segfault') and ts > $now - interval '10 minutes' and ts <= $now
),
ended_hosts as (
  select host, count(*) filter (where kind = 'oom_kill') as kills, count(*) filter (where kind = 'segfault') as crashes
  from ended
  group by host
),
config as (
  select host, program, file, line, arguments,
    row_number() over (partition by host, program, split_part(arguments, ' ', 1) order by ts desc, file, line) as place
  from config_directive
  where directive in ('server', 'proxy_pass') and ts > $now - interval '2 hours' and ts <= $now
)
select r.host, r.upstream, r.program, r.refusals, coalesce(a.errors, 0) as errors, l.process_name,
  date_part('epoch', r.last_ts) - date_part('epoch', r.first_ts) as lasted_seconds,
  case when r.last_ts <= $now - interval '12 seconds'
      or r.last_ts <= $now - interval '3 seconds' and (l.last_ts > $now - interval '2500 milliseconds' and r.upstream not like '[::1]:%' or greatest(a.answered_ts, v.answered_ts) > r.last_ts)
    then 'yes' else 'no' end as over_text,
  case when r.program = 'haproxy' then 'checked' else 'counted' end as refusals_text,
  case when m.elsewhere is not null and coalesce(l.last_ts <= $now - interval '5 seconds', true) then concat(', while ', m.elsewhere)
       when l.process_name is null then ''
       when r.upstream like '[::1]:%' and l.last_ts > $now - interval '5 seconds' then concat(', while ', l.process_name, ' listens on that port on IPv4 only: write 127.0.0.1 instead of localhost')
       when l.last_ts > $now - interval '5 seconds' then concat(', but ', l.process_name, ' listens there again')
       else concat('; ', l.process_name, ' listened there until ', cast(date_trunc('second', l.last_ts) as varchar)) end as listen_text,
  case when c.file is not null then concat(c.file, ':', c.line, ' (', c.arguments, ')') else concat('the address in the configuration of ', r.program) end as place,
  case when r.upstream like '[::1]:%' and l.last_ts > $now - interval '5 seconds' then 'note'
       when r.last_ts <= $now - interval '12 seconds'
         or r.last_ts <= $now - interval '3 seconds' and (l.last_ts > $now - interval '2500 milliseconds' or greatest(a.answered_ts, v.answered_ts) > r.last_ts) then 'note'
       when coalesce(a.errors, 0) > 0 then 'page' else 'mail' end as class,
  case when l.process_name is not null then concat_ws(', ',
    case when e.kills > 0 and k.process_name is null then 'mem.oom_kill' end,
    case when e.crashes > 0 and s.process_name is null then 'app.segfault' end) end as not_explained_by
from refused r
left join hit a on a.host = r.host and a.program = r.program and a.upstream = r.upstream
left join recovered v on v.host = r.host and v.program = r.program and v.upstream = r.upstream
left join listening l on l.host = r.host and l.upstream = r.upstream
left join moved m on m.host = r.host and m.upstream = r.upstream
left join config c on c.host = r.host and c.program = r.program and c.place = 1
  and split_part(c.arguments, ' ', 1) in (r.upstream, concat('http://', r.upstream), concat('http://', r.upstream, '/'))
left join ended_hosts e on e.host = r.host
left join ended k on k.host = r.host and k.kind = 'oom_kill' and k.process_name = l.process_name
left join ended s on s.host = r.host and s.kind = 'segfault' and s.process_name = l.process_name
