/*---
id = "db.not_monitored"
title = "A database server here is not monitored"
tier = "db"
class = "note"
for = "30s"
every = "60s"
clear = "5m"
key = ["server_port"]
needs = ["listener", "db_server"]
when = "select 1 from listener where process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'valkey-server') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{process_name} on port {server_port} of {host}"
summary = "{process_name} listens on {server_address}:{server_port} of {host} and is not monitored: locks, slow statements and full connections stay unseen"
why = "weir sends nothing to a database that the configuration does not name. So a lock, a long statement or a blocked Redis shows only as a slow application."
look_at = "docs/databases.md lists the logins. `weir query \"select error from db_server\"` shows why a configured one cannot be asked."
silent_when = "A server with that port has rows in db_server within 10 minutes, also by its unix socket (any server of that kind then counts as monitored)."
fix = "{fix_text} Then restart weir. Check: db_server has rows without an error."
source = "docs/databases.md"
[text.fix_text]
postgresql = "In psql: `create user weir password 'SECRET'; grant pg_monitor to weir;`. In weir's configuration: `[[databases]]`, `system = \"postgresql\"`, `address = \"{asked_address}\"`, `password_file = \"/etc/weir/postgresql-password\"`."
mysql = "In mysql: `create user weir@localhost identified by 'SECRET'; grant process, replication client on *.* to weir@localhost;` (MariaDB: and `replica monitor`). In weir's configuration: `[[databases]]`, `system = \"mysql\"`, `address = \"{asked_address}\"`, `password_file = \"/etc/weir/mysql-password\"`."
redis = "In redis-cli: `ACL SETUSER weir on >SECRET +info +slowlog|get`. In weir's configuration: `[[databases]]`, `system = \"redis\"`, `address = \"{asked_address}\"`, `user = \"weir\"`, `password_file = \"/etc/weir/redis-password\"`. A Redis without a password needs neither user nor file."
---*/
with listening as (
  select host, server_port, max(server_address) as server_address, max(process_name) as process_name,
    max(case when process_name = 'postgres' then 'postgresql' when process_name in ('mysqld', 'mariadbd') then 'mysql' else 'redis' end) as system
  from listener
  where process_name in ('postgres', 'mysqld', 'mariadbd', 'redis-server', 'valkey-server') and ts > $now - interval '30 seconds' and ts <= $now
    -- MySQL's X protocol and admin port.
    and server_port not in (33060, 33062)
  group by host, server_port
),
asked as (
  select distinct host, system,
    case when server_address like '/%' then 'socket' else coalesce(regexp_match(server_address, ':([0-9]+)$')[1], 'default') end as port
  from db_server
  where ts > $now - interval '10 minutes' and ts <= $now
)
select l.host, l.server_port, l.server_address, l.process_name, l.system,
  case l.system when 'postgresql' then 'postgresql' when 'mysql' then 'mysql' else 'redis' end as fix_text,
  concat(case when l.server_address in ('0.0.0.0', '::', '127.0.0.1', '::1') then '127.0.0.1' else l.server_address end, ':', cast(l.server_port as varchar)) as asked_address
from listening l
where not exists (
  select 1 from asked a
  where a.host = l.host and a.system = l.system and a.port in ('socket', 'default', cast(l.server_port as varchar))
)
  -- Redis' cluster bus listens 10,000 above the port for clients.
  and not exists (
    select 1 from listening b
    where b.host = l.host and b.system = 'redis' and l.system = 'redis' and b.server_port + 10000 = l.server_port
  )
