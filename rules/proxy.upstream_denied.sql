/*---
id = "proxy.upstream_denied"
title = "Proxy may not connect to its upstream"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["upstream"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (body like 'connect() to % failed (13: %) while connecting to upstream') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and ((body like 'AH02454%' or body like 'AH00957%')) and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "proxy.bad_gateway", "proxy.masked_errors", "proxy.misconfigured", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.upstream_errors", "traffic.unusual", "slo.burning",
]
subject = "{upstream}"
summary = "{program} on {host} may not connect to {upstream}: permission denied {lines} times in a minute; {share_text}"
why = "{why_text}"
look_at = "{look_text}"
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults)."
fix = "{fix_text} Check: the lines end and pages are served. Do not run the proxy as root."
source = "connect(2) EACCES, unix(7); php-fpm configuration (listen.owner, listen.mode); Red Hat SELinux guide, httpd_can_network_connect"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.why_text]
unix = "To connect to a Unix socket a process needs write permission on the socket's file and search permission on each directory above it. The proxy's worker user has not: after an update, a new pool user, a socket in a home directory, or SELinux."
tcp = "connect(2) to a TCP address fails with EACCES only if a security policy forbids it: SELinux on Red Hat's systems does so for httpd and nginx by default. A local firewall rule that rejects as prohibited looks the same."
[text.look_text]
unix = "`namei -l` with the path of the socket shows the owner and mode of each directory; `ps -o user= -C nginx` (or apache2, httpd) shows the user of the workers. `ausearch -m avc -ts recent` shows denials of SELinux."
tcp = "`getenforce`, and `ausearch -m avc -ts recent` for denials with name_connect. `nft list ruleset` for rules with reject."
[text.fix_text]
unix = "Give the socket the proxy's group: php-fpm `listen.owner = www-data`, `listen.group = www-data`, `listen.mode = 0660`; gunicorn `--umask 007` and a shared group; systemd `SocketGroup=` and `SocketMode=0660`. Reload that application."
tcp = "`setsebool -P httpd_can_network_connect 1` (or `semanage port -a -t http_port_t -p tcp PORT` for one port)."
---*/
with lines as (
  select host, program, ts, case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else coalesce(regexp_match(body, '(attempt to connect to|remote server|body failed to) ([^ ]+)')[2], 'an upstream')
    end as upstream,
    case when body like '%unix:%' or body like '%Unix domain socket%' then 'unix' else 'tcp' end as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (body like 'connect() to % failed (13: %) while connecting to upstream')
      or program = 'apache' and (attrs['system_error'] like '(13)%' and (body like 'AH02454%' or body like 'AH00957%')))
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
  case f.variant when 'unix' then 'unix' else 'tcp' end as why_text, case f.variant when 'unix' then 'unix' else 'tcp' end as look_text, case f.variant when 'unix' then 'unix' else 'tcp' end as fix_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
