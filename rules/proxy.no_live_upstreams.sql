/*---
id = "proxy.no_live_upstreams"
title = "No live upstream left in a pool"
tier = "proxy"
class = "mail"
for = "2s"
every = "3s"
clear = "20s"
key = ["pool"]
prefers = ["app.down", "app.socket_backlog_full", "proxy.upstream_denied", "proxy.protocol_mismatch", "app.crash_loop", "lb.too_few_healthy", "proxy.upstream_timeout", "app.closes_early"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and body like 'no live upstreams while connecting to upstream%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'haproxy' and message_template like '%ackend % has no server available!' and ts > $now - interval '10 minutes' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'AH0117%: balancer:%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body = 'no upstreams available' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where program = 'envoy' and attrs['response_flags'] like '%UH%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where program = 'traefik' and http_response_status_code = 503 and coalesce(upstream_address, '') = '' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from request where tier = 'edge' and failure = 'no_backend' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.upstream_errors", "traffic.unusual",
  "slo.burning",
]
subject = "pool {pool} of {host}"
summary = "{program} on {host} has no live server in pool {pool}: {count_text}; {reason_text}"
why = "The proxy has taken every member of the pool out, after failed requests (nginx `max_fails`) or failed health checks, and now answers each request itself with 502 or 503. Nothing reaches the application until a member is tried again or passes its check."
look_at = "Why the members were taken out: the last errors before this one in the proxy's log. Do they answer if asked directly (`curl -v` at each address)? If all went at the same moment, look for what they share: a database, a deploy, the network, the page that the health check asks for."
silent_when = "nginx, Caddy (`no upstreams available`), Envoy (flag UH) and Traefik (503 without a server, in its JSON access log; a circuit breaker that is open looks the same): fewer than 3 such lines in a minute, or all within 3 s. HAProxy: the last message about the pool within 10 minutes is that a server is UP, or the pool has answered a request since. It is a page if requests to the pool fail or no access log of this proxy is read; else a mail: an unused pool."
fix = "Repair what took the members out ({reason_text}), then let the proxy try them again: nginx does after `fail_timeout`, or at `nginx -s reload`; HAProxy after `rise` good checks; Apache after `retry`. With nginx and a single member, `max_fails=0` avoids the pause. Check: requests to {pool} are answered."
source = "nginx ngx_http_upstream_round_robin.c; HAProxy documentation, health checks; Apache mod_proxy_balancer.c AH01170; Envoy response flag UH; Caddy reverseproxy.go"
[text.count_text]
lines = "{lines} requests rejected in a minute"
state = "its last server went down at {since}"
[text.reason_text]
known = "last reason: \"{reason}\""
unknown = "the log has no reason"
---*/
with last_words as (
  select host, regexp_match(body, '(ackend ''?|erver )([^ ''/]+)')[2] as pool, ts, body,
    row_number() over (partition by host, regexp_match(body, '(ackend ''?|erver )([^ ''/]+)')[2] order by ts desc, case when body like '%no server available!' then 0 else 1 end) as place
  from log
  where ts > $now - interval '10 minutes' and ts <= $now and program = 'haproxy'
    and (message_template like '%ackend % has no server available!' or message_template like '%erver %/% is UP%')
),
used as (
  select host, proxy_backend as pool, max(case when proxy_server is not null and http_response_status_code < 500 then ts end) as good_ts,
    count(*) filter (where http_response_status_code in (502, 503, 504) and ts > $now - interval '60 seconds') as failed
  from request
  where tier = 'proxy' and program = 'haproxy' and proxy_backend is not null and ts > $now - interval '10 minutes' and ts <= $now
  group by host, proxy_backend
),
seen as (
  select distinct host, program from request where tier = 'proxy' and ts > $now - interval '10 minutes' and ts <= $now
),
dead as (
  select host, 'nginx' as program, regexp_match(attrs['upstream'], '://([^/"]+)')[1] as pool, count(*) as lines, min(ts) as since, true as is_used
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'nginx' and body like 'no live upstreams while connecting to upstream%'
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select host, 'apache' as program, regexp_match(body, 'balancer://([^ :/]+)')[1] as pool, count(*) as lines, min(ts) as since, true as is_used
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'apache' and body like 'AH0117%: balancer:%'
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select host, 'caddy' as program, 'of a reverse_proxy' as pool, count(*) as lines, min(ts) as since, true as is_used
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and coalesce(program, '') in ('', 'other', 'caddy') and attrs['logger'] like 'http.log.error%' and body = 'no upstreams available'
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select host, program, coalesce(attrs['upstream_cluster'], nullif(proxy_backend, ''), 'of a cluster') as pool, count(*) as lines, min(ts) as since, true as is_used
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and program = 'envoy' and regexp_like(attrs['response_flags'], '(^|,)UH(,|$)')
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  -- Traefik answers 503 without a server itself: `no available server`.
  select host, program, coalesce(nullif(proxy_backend, ''), nullif(proxy_frontend, ''), 'of a service') as pool, count(*) as lines, min(ts) as since, true as is_used
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and program = 'traefik' and http_response_status_code = 503
    and coalesce(upstream_address, '') = '' and coalesce(upstream_status_code, 0) = 0 and coalesce(nullif(proxy_backend, ''), nullif(proxy_frontend, '')) is not null
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select host, 'weir edge' as program, coalesce(nullif(proxy_backend, ''), server_address) as pool, count(*) as lines, min(ts) as since, true as is_used
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'edge' and failure = 'no_backend'
  group by 1, 2, 3
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
  union all
  select w.host, 'haproxy' as program, w.pool, cast(null as bigint) as lines, w.ts as since, coalesce(u.failed > 0, s.program is null) as is_used
  from last_words w
  left join used u on u.host = w.host and u.pool = w.pool
  left join seen s on s.host = w.host and s.program = 'haproxy'
  where w.place = 1 and w.body like '%no server available!' and (u.good_ts is null or u.good_ts <= w.ts + interval '2 seconds')
),
reasons as (
  select host, program, case when program = 'haproxy' then regexp_match(body, 'erver ([^ ''/]+)/')[1] end as pool,
    coalesce(regexp_match(body, '(?:is DOWN|failed), reason: (.*?)(, check duration|[.] [0-9])')[1],
      concat_ws(': ', attrs['system_error'], regexp_replace(body, '"[^"]*"', '"…"', 'g'))) as reason,
    row_number() over (partition by host, program, case when program = 'haproxy' then regexp_match(body, 'erver ([^ ''/]+)/')[1] end order by ts desc) as place
  from log
  where ts > $now - interval '10 minutes' and ts <= $now
    and (program = 'nginx' and message_template like '% upstream' and body not like 'no live upstreams%' or program = 'haproxy' and (message_template like '%erver %/% is DOWN, reason%' or message_template like 'Health check for server %/% failed, reason: %')
      or program = 'apache' and (body like 'AH00957%' or body like 'AH02454%' or body like 'AH01102%')
      or program = 'caddy' and attrs['logger'] like 'http.log.error%' and body like 'dial %')
)
select d.host, d.program, d.pool, d.lines, date_trunc('second', d.since) as since, r.reason,
  case when d.lines is null then 'state' else 'lines' end as count_text,
  case when r.reason is null then 'unknown' else 'known' end as reason_text,
  case when d.is_used then 'page' else 'mail' end as class
from dead d
left join reasons r on r.host = d.host and r.program = d.program and r.place = 1 and (r.pool is null or r.pool = d.pool)
where d.pool is not null
