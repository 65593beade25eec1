/*---
id = "lb.too_few_healthy"
title = "Fewer than 60 % of a pool's servers are up"
tier = "app"
class = "page"
for = "10s"
every = "10s"
clear = "30s"
key = ["backend"]
needs = ["log", "config_directive", "request"]
when = "select 1 from log where program = 'haproxy' and message_template like '%erver % is DOWN%' and ts > $now - interval '30 minutes' and ts <= $now limit 1"
explains = [
  "app.errors_quiet", "app.throughput_drop", "lb.uneven", "proxy.bad_gateway",
  "proxy.haproxy_queue", "proxy.no_live_upstreams", "traffic.unusual", "slo.burning",
]
subject = "pool {backend} of {host}"
summary = "{down} of {servers} servers of pool {backend} on {host} are down ({down_names}); last reason: {reason}"
why = "The remaining servers carry the whole load. If they are not sized for it they fail next, one after the other, and the site is down. Several failures at once usually have a shared cause."
look_at = "The reasons: all \"Layer4 connection problem\": processes that exited, a deploy; all \"timeout\": overload, or a dependency of the check (a database); \"No route to host\": network. Did the balancer itself lose its network? Then others still reach the servers."
silent_when = "At least 60 % of the configured servers are up by HAProxy's last state within 30 minutes, or the pool has only one server (app.down covers it). Servers in maintenance do not count as down. A server that answers requests again counts as up, since a reload forgets what was down. A server down for longer than 30 minutes is no longer known here."
fix = "Bring servers back first: roll back the last deploy, start what exited (app.down names what refuses connections), and stop automatic restarts and further deploys until the pool is complete. If the check is at fault and not the servers (it includes a shared dependency), let it request a page without one: `option httpchk GET /health`. Protect the remaining ones: `maxconn` on each `server` line so that HAProxy queues. Check: `Server … is UP` for each."
source = "field notes C (automatic healing that took a pool down); Envoy's panic threshold; HAProxy documentation, health checks"
---*/
with changes as (
  select host, ts, regexp_match(message_template, 'erver ([^ ]+) is ')[1] as server, message_template,
    row_number() over (partition by host, regexp_match(message_template, 'erver ([^ ]+) is ')[1] order by ts desc) as place
  from log
  where program = 'haproxy' and ts > $now - interval '30 minutes' and ts <= $now
    and (message_template like '%erver % is DOWN%' or message_template like '%erver % is UP%' or message_template like '%erver % is going DOWN for maintenance%')
),
revived as (
  select host, concat(proxy_backend, '/', proxy_server) as server, max(ts) as last_ts
  from request
  where ts > $now - interval '30 seconds' and ts <= $now and program = 'haproxy' and http_response_status_code < 500 and proxy_server is not null
  group by 1, 2
),
downs as (
  select host, split_part(server, '/', 1) as backend, count(*) as down, string_agg(server, ', ' order by server) as down_names,
    max(coalesce(regexp_match(message_template, 'reason: ([^,]+)')[1], 'unknown')) as reason
  from changes
  where place = 1 and message_template like '% is DOWN%' and server like '%/%'
    and not exists (select 1 from revived v where v.host = changes.host and v.server = changes.server and v.last_ts > changes.ts + interval '2 seconds')
  group by 1, 2
),
lines as (
  select host, split_part(context, ' ', 2) as backend, file, line,
    rank() over (partition by host, file order by ts desc) as place
  from config_directive
  where program = 'haproxy' and directive = 'server' and (context like 'backend %' or context like 'listen %')
    and ts > $now - interval '2 hours' and ts <= $now
),
pools as (
  select host, backend, count(*) as servers from lines where place = 1 group by host, backend
)
select d.host, d.backend, d.down, d.down_names, d.reason, p.servers
from downs d
join pools p on p.host = d.host and p.backend = d.backend
where p.servers >= 2 and (p.servers - d.down) < 0.6 * p.servers
