/*---
id = "proxy.upstream_unresolved"
title = "Proxy cannot resolve its upstream's name"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["name"]
prefers = ["dns.resolver_slow"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (message_template like '… could not be resolved (%' or message_template like 'no resolver defined to resolve %' or message_template like 'host not found in %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'AH00898: DNS lookup failure for: %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (attrs['logger'] like 'http.log.error%' or body like '''50_ %'' caused by: %' or body in ('500 Internal Server Error', '502 Bad Gateway', '504 Gateway Timeout')) and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'haproxy' and message_template like '%erver %/% is going DOWN for maintenance (%' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.throughput_drop",
  "lb.too_few_healthy", "proxy.bad_gateway", "proxy.misconfigured", "proxy.no_live_upstreams", "proxy.upstream_errors",
  "traffic.unusual", "slo.burning",
]
subject = "{name} on {host}"
summary = "{program} on {host} cannot resolve {name}: {reason}, {lines} times in a minute; {share_text}"
why = "The proxy asks its name server for the upstream's address and gets none: the record is gone, a private zone is broken, the name server does not answer, or nginx has no `resolver` for a name in a variable. The upstream itself may be healthy."
look_at = "`dig NAME @SERVER` on {host} with the name servers of the proxy's own `resolver` (nginx, HAProxy) or of /etc/resolv.conf (Apache): NXDOMAIN, SERVFAIL or no answer? Compare with a name of another zone."
silent_when = "Fewer than 3 such lines in a minute, or all within 3 s; `host not found in upstream` at a start or reload counts at once, since the new configuration is not in force. It is a page if at least 20 % of the proxy's requests fail in that minute, or, without an access log, from 30 lines (defaults). A proxy that takes the name from the request (`proxy_pass http://$host`) resolves what visitors send: those names are theirs."
fix = "Repair the record or the name server. Until then name the address in the proxy's configuration, or in /etc/hosts for Apache (nginx's `resolver` does not read it). nginx: two name servers in `resolver … valid=30s;`. Check: the lines end."
source = "nginx ngx_resolver.c, ngx_http_upstream.c; HAProxy documentation, server IP address resolution using DNS; Apache AH00898"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
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
  select host, program, ts, coalesce(message_template, '') like 'host not found in %' as is_start,
    case when program = 'haproxy' then regexp_match(body, 'erver ([^ ]+) is going')[1]
         when program = 'apache' then regexp_match(body, 'lookup failure for: ([^ ]+)')[1]
         when coalesce(message_template, '') like 'host not found in %' then regexp_match(body, '^host not found in [^"]*"([^"]+)"')[1]
         else coalesce(regexp_match(body, '^([A-Za-z0-9._-]+) could not be resolved [(][^()]*[)]$')[1], regexp_match(body, '^no resolver defined to resolve ([A-Za-z0-9._-]+)$')[1]) end as name,
    case when program = 'haproxy' then regexp_match(body, 'maintenance [(]([^)]+)[)]')[1]
         when program = 'apache' then coalesce(attrs['system_error'], 'lookup failure')
         when coalesce(message_template, '') like 'host not found in %' then 'at start'
         else coalesce(regexp_match(body, 'could not be resolved [(]([^)]+)[)]')[1], 'no resolver is set') end as reason
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (message_template like '… could not be resolved (%' or message_template like 'no resolver defined to resolve %' or message_template like 'host not found in %')
      or program = 'apache' and coalesce(attrs['module'], 'proxy') like 'proxy%' and body like 'AH00898: DNS lookup failure for: %'
      or program = 'haproxy' and (message_template like '%erver %/% is going DOWN for maintenance (DNS %' or message_template like '%erver %/% is going DOWN for maintenance (No IP%'))
  union all
  select host, program, ts, false as is_start, regexp_match(reason, '^dial tcp: lookup ([^ :]+)')[1] as name, regexp_match(reason, ': ([a-z/ ]+)$')[1] as reason
  from go_errors
  where regexp_like(reason, '^dial tcp: lookup [^ :]+( on [^ ]+)?: (no such host|server misbehaving|i/o timeout|.*: i/o timeout)$')
),
failing as (
  select host, program, name, max(reason) as reason, count(*) as lines
  from lines
  where name is not null
  group by host, program, name
  having bool_or(is_start) or program = 'haproxy' or count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
answers as (
  select host, program, count(*) as requests, count(*) filter (where http_response_status_code in (500, 502, 503, 504)) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host, program
)
select f.host, f.program, f.name, f.reason, f.lines, a.requests, a.failed, cast(a.failed as double) / a.requests as failed_ratio,
  case when a.requests is null then 'unknown' else 'known' end as share_text,
  case when a.requests is null and f.lines >= 30 then 'page' when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
