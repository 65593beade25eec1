/*---
id = "proxy.no_upstream_keepalive"
title = "nginx opens an upstream connection per request"
tier = "proxy"
class = "note"
for = "60s"
every = "60s"
clear = "10m"
key = []
needs = ["tcp_stat", "request", "config_directive", "sock_stat"]
when = "select host from tcp_stat where counter = 'ActiveOpens' and ts > $now - interval '60 seconds' and ts <= $now group by host having sum(increase) > 9600 limit 1"
subject = "nginx on {host}"
summary = "{host} opens {opens_per_second:.0} connections/s for {requests_per_second:.0} proxied requests/s ({ratio:.2} per request): no `keepalive` in nginx's upstreams; {time_wait} sockets in TIME_WAIT"
why = "A new connection per request costs a round trip, CPU time on both sides, and a local port for 60 s: at about 470 requests/s to one address the ports run out (tcp.ephemeral_exhausted)."
look_at = "ActiveOpens of tcp_stat against the requests; `ss -tn state established dst APPLICATION | wc -l` stays small while TIME_WAIT is large. Does the application support it (HTTP/1.1, an idle timeout longer than nginx's)?"
silent_when = "Fewer than 200 proxied requests/s, fewer than 0.8 connections per request, or `keepalive` in any upstream of the configuration: then other programs on the host may open the connections. Applications behind a unix socket use neither ports nor TCP connections."
fix = "{place}in the `upstream` block, after its `server` lines: keepalive 64; keepalive_timeout 50s; and where it is used: proxy_http_version 1.1; proxy_set_header Connection \"\"; then `nginx -t && nginx -s reload`. `proxy_pass http://ADDRESS` without an `upstream` block keeps no connections: add a block. The application's idle timeout must be longer than those 50 s (proxy.keepalive_mismatch). Check: ActiveOpens falls below a tenth of the requests."
source = "field notes A (200,000 to 15,000 in TIME_WAIT, a fifth of the processor saved); nginx documentation of `keepalive`"
[chart]
title = "Connections opened"
unit = ""
sql = """
select ts, sum(increase) as opened from tcp_stat
where counter = 'ActiveOpens' and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with opened as (
  select host, sum(increase) as opens
  from tcp_stat
  where counter = 'ActiveOpens' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
  having sum(increase) > 9600
),
served as (
  select host, count(*) as requests
  from request
  where tier = 'proxy' and program = 'nginx' and upstream_response_seconds is not null
    and coalesce(upstream_address, '') not like 'unix:%'
    and ts > $now - interval '60 seconds' and ts <= $now
  group by host
  having count(*) >= 12000
),
kept as (
  select host, count(*) as n
  from config_directive
  where program = 'nginx' and directive = 'keepalive' and context like '%upstream%' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
config as (
  select host, file, line, row_number() over (partition by host order by case when context like '%upstream%' then 0 else 1 end, ts desc, file, line) as place
  from config_directive
  where program = 'nginx' and ((directive = 'server' and context like '%upstream%') or directive = 'proxy_pass')
    and ts > $now - interval '2 hours' and ts <= $now
),
sockets as (
  select host, max(tcp_time_wait) as time_wait from sock_stat where ts > $now - interval '10 seconds' and ts <= $now group by host
)
select o.host, o.opens / 60.0 as opens_per_second, s.requests / 60.0 as requests_per_second,
  cast(o.opens as double) / s.requests as ratio, w.time_wait,
  concat(c.file, ':', c.line, ': ') as place
from opened o
join served s on s.host = o.host
join config c on c.host = o.host and c.place = 1
left join kept k on k.host = o.host
left join sockets w on w.host = o.host
where k.host is null and o.opens > 0.8 * s.requests
