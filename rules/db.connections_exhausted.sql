/*---
id = "db.connections_exhausted"
title = "A database has hardly a connection left"
tier = "db"
class = "mail"
for = "1s"
every = "5s"
clear = "30s"
key = ["server_address"]
explained_by = ["pg.lock_pileup", "disk.stuck", "disk.slow"]
needs = ["db_server"]
when = "select 1 from db_server where (connections > 0.8 * connection_limit or connections_refused_increase > 0) and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{system} at {server_address}"
summary = "{server_address} ({system}) has {connections} of {connection_limit} connections in use{refused_text}"
why = "Who comes next gets an error instead of an answer, and every application that shares this database gets it at the same moment."
look_at = "Who holds them: PostgreSQL `select usename, client_addr, state, count(*) from pg_stat_activity group by 1, 2, 3 order by 4 desc`; MySQL `select user, host, command, count(*) from information_schema.processlist group by 1, 2, 3`; Redis `CLIENT LIST`. Many idle ones: pools that are larger together than the limit. Many active ones: queries that have become slow (a lock, a disk), the pool is only the symptom."
silent_when = "At most 80 % in use and none refused within 30 s (a default). Only servers of `[[databases]]` are asked."
fix = "{fix_text} Check: connections below 80 % of the limit, none refused."
source = "PostgreSQL max_connections, superuser_reserved_connections; MySQL Connection_errors_max_connections; Redis rejected_connections"
[chart]
title = "Connections"
unit = ""
sql = """
select ts, connections, connection_limit from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with looks as (
  select *, row_number() over (partition by host, server_address order by ts desc) as place,
    sum(connections_refused_increase) over (partition by host, server_address) as refused
  from db_server
  where ts > $now - interval '30 seconds' and ts <= $now and connections is not null
)
select host, system, server_address, connections, connection_limit, refused,
  case when refused > 0 then concat('; it refused ', refused, ' in 30 s') else '' end as refused_text,
  case system
    when 'postgresql' then 'Put a pooler between (pgbouncer, `pool_mode = transaction`), or make the applications'' pools smaller, so that all of them together stay below the limit; each connection costs megabytes, so `max_connections` comes last, and needs a restart.'
    when 'mysql' then 'Make the applications'' pools smaller, so that all of them together stay below the limit, and end idle ones (`wait_timeout = 300`); `set global max_connections = 500` works at once where memory allows, and belongs into my.cnf as well.'
    else 'Let the clients keep and share connections; `CONFIG SET timeout 300` ends idle ones, `CONFIG SET maxclients 20000` raises the limit (the limit of open files has to be above it).'
  end as fix_text,
  case when refused > 0 or connections > 0.95 * connection_limit then 'page' else 'mail' end as class
from looks
where place = 1 and (connections > 0.8 * connection_limit or refused > 0)
