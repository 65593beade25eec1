/*---
id = "proxy.upstream_errors"
title = "Proxy logs failed requests; no access log is read"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["program"]
prefers = [
  "app.down", "app.socket_backlog_full", "proxy.upstream_denied", "proxy.header_too_big", "proxy.protocol_mismatch",
  "proxy.upstream_unresolved", "app.worker_timeout", "proxy.upstream_timeout", "app.closes_early", "proxy.no_live_upstreams",
]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and message_template like '% upstream' and severity in ('error', 'critical', 'alert', 'emergency') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'AH%' and severity in ('error', 'critical', 'alert', 'emergency', 'warn') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where severity = 'error' and (program = 'caddy' or body like 'dial %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%gw_backend.c.%' or body like '%(mod_%.c.%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '-% FetchError %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '''502 Bad Gateway'' caused by: %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '''504 Gateway Timeout'' caused by: %' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = ["app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "traffic.unusual", "slo.burning"]
subject = "{program} on {host}"
summary = "{program} on {host} logs {lines} failed attempts at its upstreams in a minute, most often \"{line}\"{upstream_text} ({line_lines} times); {doubt_text}"
why = "Each line is a request that an upstream did not answer as it should. weir reads no access log of this proxy, so the share of visitors who get an error is unknown: only that there are some, unless each attempt was repeated at another member."
look_at = "`select body, attrs['upstream'], count(*) from log where program = '{program}' and ts > now() - interval '5 minutes' group by 1, 2 order by 3 desc`. Is the access log off, in a pipe, or on another host? `weir up` lists at its start what it reads."
silent_when = "Fewer than 5 such lines in a minute or all within 3 s; any request of this program in a table within 2 minutes (then proxy.bad_gateway judges the share). It is a page from 30 lines a minute (a default) if they name one upstream, so that no other member can have answered; with several upstreams a retry may have saved each request, and it stays a mail."
fix = "Repair what the line names: the upstream does not run, does not accept, answers too late or not as the proxy expects. To know the share, let the proxy write an access log to a file (nginx `access_log /var/log/nginx/access.log;`). Check: the lines end."
source = "nginx ngx_http_upstream.c; Apache mod_proxy*.c; Caddy http.log.error; Traefik pkg/proxy ErrorHandler; Varnish cache_fetch.c, cache_backend.c (FetchError in `varnishlog`); lighttpd gw_backend.c"
[text.upstream_text]
known = " at {upstream}"
unknown = ""
[text.doubt_text]
one = "all name one upstream, so these visitors got an error"
several = "{upstreams} upstreams are named, so a retry may have saved some requests"
---*/
with spoken as (
  select host,
    case when program in ('nginx', 'apache') then program when attrs['logger'] is not null then 'caddy'
      when body like '-% FetchError %' then 'varnish' when body like '%.c.%)%' then 'lighttpd' else 'traefik' end as program, ts,
    case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      when body like '%.c.%)%' and coalesce(program, '') in ('', 'other', 'lighttpd') then regexp_replace(regexp_match(body, ' (?:socket:|connect[(][)]) ?((?:tcp:|unix:|/)[^ ]+?)(?::? |$)')[1], '^tcp:', '')
      when body like '-% FetchError %' then regexp_match(body, '^-+ +FetchError +backend ([^ :]+): ')[1]
      else coalesce(regexp_match(coalesce(attrs['error'], body), '(attempt to connect to|remote server|body failed to|dial tcp) ([^ ]+?):? ')[2], regexp_match(coalesce(attrs['error'], body), 'dial unix ([^ ]+?):? ')[1])
    end as upstream,
    substr(regexp_replace(regexp_replace(regexp_replace(concat_ws(': ', attrs['system_error'], body, attrs['error']), ' returned by .*$', ''), '"[^"]*"', '"…"', 'g'), '''[^'']*''', '''…''', 'g'), 1, 120) as line
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and message_template like '% upstream' and severity in ('error', 'critical', 'alert', 'emergency')
      or program = 'apache' and body like 'AH%' and attrs['module'] like 'proxy%' and severity in ('error', 'critical', 'alert', 'emergency', 'warn')
        and body not like 'AH01114%' and body not like 'AH01079%' and body not like 'AH00940%' and body not like 'AH00898: Error reading%' and body not like 'AH00959%' and body not like 'AH01106%'
      or severity = 'error' and (program = 'caddy' or body like 'dial %') and attrs['logger'] like 'http.log.error%' and attrs['status'] in ('502', '503', '504')
      or coalesce(program, '') in ('', 'other', 'lighttpd') and regexp_like(body, '^([0-9-]+ [0-9:]+: )?[(]([^ )]*/)?(gw_backend|mod_proxy|mod_fastcgi|mod_scgi|mod_ajp13)[.]c[.][0-9]+[)] (\[[a-z]+\] )?(establishing connection failed: |connect[(][)] [^ ]+: |connect(ion)? (failed|refused|timed out)|all handlers for |unexpected end-of-file |backend died; |response not received, request sent: |read timeout )')
      or coalesce(program, '') in ('', 'other', 'varnish', 'varnishlog') and regexp_like(body, '^-{1,4} +FetchError +(no backend connection|backend [^ :]{1,80}: (unhealthy|busy|fail errno [0-9]+)|first byte timeout|between bytes timeout|http first read error|http read error|straight (read_error|insufficient bytes)|chunked (read_error|header)|Resource temporarily unavailable|Director [^ ]{1,80} returned no backend)')
      or coalesce(program, '') in ('', 'other', 'traefik') and (body like '''502 Bad Gateway'' caused by: %' or body like '''504 Gateway Timeout'' caused by: %') and body not like '%client disconnected'
      or coalesce(program, '') in ('', 'other', 'traefik') and body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout') and attrs['error'] is not null and attrs['error'] not like '%client disconnected')
),
totals as (
  select host, program, count(*) as lines, count(distinct upstream) as upstreams
  from spoken
  group by host, program
  having count(*) >= 5 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
ranked as (
  select host, program, upstream, line, count(*) as line_lines,
    row_number() over (partition by host, program order by count(*) desc, line) as place
  from spoken
  group by host, program, upstream, line
),
logged as (
  select distinct host, program from request where tier in ('proxy', 'edge') and ts > $now - interval '2 minutes' and ts <= $now
)
select t.host, t.program, t.lines, t.upstreams, r.upstream, r.line, r.line_lines,
  case when r.upstream is null then 'unknown' else 'known' end as upstream_text,
  case when t.upstreams <= 1 then 'one' else 'several' end as doubt_text,
  case when t.upstreams <= 1 and t.lines >= 30 then 'page' else 'mail' end as class
from totals t
join ranked r on r.host = t.host and r.program = t.program and r.place = 1
left join logged l on l.host = t.host and (l.program = t.program or l.program is null and t.program = 'lighttpd')
where l.host is null
