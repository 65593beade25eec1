/*---
id = "tune.listen_backlog"
title = "Proxy backlog below the kernel's limit"
tier = "proxy"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "tcp_stat", "listener", "config_directive"]
subject = "{name}"
summary = "{events} connections met a full accept queue since boot; {program} on port {server_port} has a backlog of {current}, the kernel allows {somaxconn}"
why = "The proxy's listen line sets how many connections may wait for accept(). nginx requests 511 by default, whatever the kernel allows."
look_at = "`ss -ltn 'sport = :{server_port}'`: Send-Q is the limit in force."
silent_when = "No connection was dropped at a full queue since boot, or the backlog equals the kernel's limit."
fix = "{file}:{line}: {directive} {new_arguments}"
source = "nginx ngx_http_core_module `listen`; HAProxy configuration manual, `bind … backlog`"
[setting]
risk = "Low, as with net.core.somaxconn."
interaction = "net.core.somaxconn is the upper bound. nginx applies a new backlog only when it calls listen() again: restart, not reload. With `reuseport` each worker has its own queue."
---*/
with counter as (
  select host, max(value) as events
  from tcp_stat
  where protocol = 'TcpExt' and counter = 'ListenOverflows' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
allowed as (
  select host, last_value(cast(value as bigint) order by ts) as somaxconn
  from sysctl
  where name = 'net.core.somaxconn' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
queues as (
  select host, process_name, server_port, max(accept_queue_limit) as queue_limit
  from listener
  where netns = 'host' and ts > $now - interval '5 seconds' and ts <= $now and process_name in ('nginx', 'haproxy')
  group by host, process_name, server_port
),
config as (
  select host, program, server_port, file, line, directive, arguments,
    row_number() over (partition by host, program, server_port order by ts desc, file, line) as place
  from config_directive
  where directive in ('listen', 'bind') and ts > $now - interval '2 hours' and ts <= $now
)
select q.host, concat(g.program, ' ', g.directive, ' of port ', q.server_port) as name, g.program, q.server_port,
  q.queue_limit as current, least(a.somaxconn, 16384) as suggested, a.somaxconn, c.events, g.file, g.line, g.directive, g.arguments,
  case when g.program = 'nginx' then concat(trim(regexp_replace(g.arguments, ' *backlog=[0-9]+', '')), ' backlog=', least(a.somaxconn, 16384))
    else concat(trim(regexp_replace(g.arguments, ' *backlog +[0-9]+', '')), ' backlog ', least(a.somaxconn, 16384)) end as new_arguments
from queues q
join counter c on c.host = q.host
join allowed a on a.host = q.host
join config g on g.host = q.host and g.program = q.process_name and g.server_port = q.server_port and g.place = 1
where c.events > 0 and q.queue_limit < a.somaxconn and q.queue_limit < 16384
