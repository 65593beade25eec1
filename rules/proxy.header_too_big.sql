/*---
id = "proxy.header_too_big"
title = "Response header exceeds the proxy buffer"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["upstream"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (message_template = 'upstream sent too big header while reading response header from upstream') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH10124: header size is over the limit%') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "proxy.bad_gateway", "proxy.masked_errors", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.upstream_errors", "traffic.unusual", "slo.burning",
]
subject = "{upstream}"
summary = "{upstream} sends response headers that {program} on {host} rejects as too big: {lines} in a minute; {share_text}"
why = "The proxy must hold the whole response header in one buffer (nginx: 4 or 8 KiB). Above that it answers 502 though the application did its work. Usual reasons: cookies or tokens that have grown, `Link` or debugging headers, a redirect with a long URL. Often only some users are affected: those with many roles or a full cart."
look_at = "Size of the header: `curl -s -o /dev/null -D - URL | wc -c` at the application itself, with the cookies of an affected user. Which header is the longest, and since which release?"
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults)."
fix = "{fix_text} Then make the header smaller: store the session on the server, not in the cookie. Check: the lines end."
source = "nginx documentation of proxy_buffer_size; ngx_http_upstream.c; Apache mod_proxy_http.c AH10124, ResponseFieldSize"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.fix_text]
nginx = "`proxy_buffer_size 16k; proxy_buffers 8 16k;` (for PHP `fastcgi_buffer_size` and `fastcgi_buffers`, for uWSGI `uwsgi_buffer_size`) in the location of {upstream}, then `nginx -t && nginx -s reload`."
apache = "`ProxyPass … responsefieldsize=16384` for {upstream}, then `apachectl graceful`."
---*/
with lines as (
  select host, program, ts, case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else coalesce(regexp_match(body, '(attempt to connect to|remote server|body failed to) ([^ ]+)')[2], 'an upstream')
    end as upstream,
    'header' as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (message_template = 'upstream sent too big header while reading response header from upstream')
      or program = 'apache' and coalesce(attrs['module'], 'proxy') like 'proxy%' and (body like 'AH10124: header size is over the limit%'))
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
  case when f.program = 'apache' then 'apache' else 'nginx' end as fix_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
