/*---
id = "proxy.backend_down"
title = "HAProxy backend has too few servers up"
tier = "app"
class = "mail"
for = "0s"
every = "2s"
clear = "10s"
key = ["backend"]
equal = ["pool"]
needs = ["proxy_stat", "request"]
when = "select 1 from proxy_stat where kind in ('backend', 'server') and (state like 'DOWN%' or state like 'MAINT (resolution)%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.errors", "app.throughput_drop", "lb.uneven", "proxy.bad_gateway", "proxy.haproxy_backlog",
  "proxy.haproxy_errors", "proxy.haproxy_maxconn", "proxy.haproxy_queue", "proxy.haproxy_slow",
  "proxy.no_live_upstreams", "traffic.unusual", "slo.burning",
]
subject = "backend {backend} of {host}"
summary = "HAProxy on {host}: {servers_up} of {servers} servers of backend {backend} are up; {down_names}: {reason}{requests_text}"
why = "{why_text}"
look_at = "The reason of each server, as HAProxy's check reports it: L4CON with `Connection refused`: no process listens there. L4TOUT: host or network, or a full accept queue. L7STS: the application answers the check with an error, often because a dependency fails. L7TOUT: it accepts and does not answer. `MAINT (resolution)`: its name does not resolve. `echo 'show servers state' | socat stdio {source:sh}` lists them."
silent_when = "At least 60 % of the servers are up. Servers that were put into maintenance do not count, nor do backup servers while another one is up. A backend without a request in the last 10 minutes is a note: it is unused. With a readable log app.down and lb.too_few_healthy report the same servers."
fix = "Bring the servers back first: start what exited, roll back the last deploy. If the servers work and only the check fails, let it request a page without dependencies: `option httpchk GET /health`. So that one dead server costs less: `option redispatch` and a server with `backup`. Check: `state` of the backend in the table proxy_stat is UP. Do not restart HAProxy: it works."
source = "HAProxy management guide 9.1, columns status, last_chk, check_status; github.com/haproxy/haproxy #2140"
[text.why_text]
none = "HAProxy has no server to send requests to and answers 503 itself, at once. The sites in front are healthy, so their own logs show nothing."
few = "The servers that are left carry the whole load. If they are not sized for it they fail next. Several failures at once usually have one cause."
[chart]
title = "Servers up"
unit = ""
sql = """
select ts, servers_up, servers_total from proxy_stat
where host = {host} and proxy_name = {backend} and kind = 'backend' and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with newest as (
  select *, row_number() over (partition by host, kind, proxy_name, coalesce(server_name, '') order by ts desc) as place
  from proxy_stat
  where ts > $now - interval '30 seconds' and ts <= $now and kind in ('backend', 'server')
),
downs as (
  select host, proxy_name as backend, count(*) as down,
    string_agg(server_name, ', ' order by server_name) as down_names,
    max(case when state like 'MAINT (resolution)%' then 'its name does not resolve'
             when check_text is not null and check_code is not null then concat(check_status, ' ', check_code, ', ', check_text)
             when check_text is not null then concat(check_status, ', ', check_text)
             when check_code is not null then concat(check_status, ', status ', check_code)
             else coalesce(check_status, state) end) as reason,
    min(state_seconds) as newest_seconds
  from newest
  where place = 1 and kind = 'server' and (state like 'DOWN%' or state like 'MAINT (resolution)%')
  group by host, proxy_name
),
traffic as (
  select host, proxy_name as backend, sum(sessions_increase) as used,
    sum(sessions_increase) filter (where ts > $now - interval '30 seconds') as requests,
    sum(responses_5xx_increase) filter (where ts > $now - interval '30 seconds') as errors
  from proxy_stat
  where ts > $now - interval '10 minutes' and ts <= $now and kind = 'backend'
  group by host, proxy_name
),
backends as (
  select b.host, b.proxy_name as backend, b.source, b.state, b.state_seconds, b.servers_up,
    greatest(coalesce(b.servers_total, 0), d.down) as servers, d.down, d.down_names, d.reason, d.newest_seconds,
    coalesce(t.used, 0) as used, coalesce(t.requests, 0) as requests, coalesce(t.errors, 0) as errors,
    b.state like 'DOWN%' as is_down
  from newest b
  join downs d on d.host = b.host and d.backend = b.proxy_name
  left join traffic t on t.host = b.host and t.backend = b.proxy_name
  where b.place = 1 and b.kind = 'backend'
)
select host, backend, backend as pool, source, state, state_seconds, servers_up, servers, down, requests, errors,
  case when length(down_names) > 60 then concat(left(down_names, 57), '...') else down_names end as down_names, reason,
  case when errors > 0 then concat('; ', errors, ' requests got 5xx in 30 s') else '' end as requests_text,
  case when is_down then 'none' else 'few' end as why_text,
  case when is_down and requests > 0 then 'page'
       when used = 0 then 'note'
       when servers_up < 0.6 * servers and requests > 0 then 'page'
       else 'mail' end as class
from backends
where is_down or (servers >= 2 and servers_up < 0.6 * servers)
