/*---
id = "db.connections_exhausted"
title = "Database connections nearly exhausted"
tier = "db"
class = "mail"
for = "1s"
every = "5s"
clear = "30s"
key = ["database_address"]
equal = ["service_names"]
prefers = ["pg.lock_pileup"]
needs = ["db_server"]
when = "select 1 from db_server where (connections > 0.8 * connection_limit or connections_refused_increase > 0) and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.check_failing", "app.errors", "app.errors_quiet",
  "app.health_digest_missing", "app.pool_exhausted", "app.requests_stopped", "app.slow",
  "app.slow_quiet", "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning",
  "app.service_hangs", "proxy.upstream_hangs",
]
subject = "{system} at {server_address}"
summary = "{server_address} ({system}) uses {connections} of {connection_limit} connections{refused_text}"
why = "The next client gets an error instead of a connection, and every application that shares this database gets it at the same moment."
look_at = "Who holds them: PostgreSQL `select usename, client_addr, state, count(*) from pg_stat_activity group by 1, 2, 3 order by 4 desc`; MySQL `select user, host, command, count(*) from information_schema.processlist group by 1, 2, 3`; Redis `CLIENT LIST`. Many idle ones: pools whose total exceeds the limit. Many active ones: queries have become slow (a lock, a disk), and the pool is only the symptom."
silent_when = "At most 80 % in use (a default) and none refused within 30 s. Only servers of `[[databases]]` are probed."
fix = "{fix_text} Check: connections below 80 % of the limit, none refused."
source = "PostgreSQL max_connections, superuser_reserved_connections; MySQL Connection_errors_max_connections; Redis rejected_connections"
[text.fix_text]
postgresql = "Put a pooler in front (pgbouncer, `pool_mode = transaction`), or shrink the applications' pools so that their total stays below the limit; each connection costs megabytes, so raise `max_connections` last; it needs a restart."
mysql = "Shrink the applications' pools so that their total stays below the limit, and end idle connections (`wait_timeout = 300`); `set global max_connections = 500` works at once if memory allows; add it to my.cnf too."
redis = "Let the clients pool connections; `CONFIG SET timeout 300` ends idle ones, `CONFIG SET maxclients 20000` raises the limit (the open-file limit must be above it)."
[text.refused_text]
some = "; {refused} refused in 30 s"
none = ""
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
select host, system, server_address, server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(server_address, ':([0-9]+)$')[1], case system when 'mysql' then 'mysqld' else system end) as service_names, connections, connection_limit, refused,
  case when refused > 0 then 'some' else 'none' end as refused_text,
  case system
    when 'postgresql' then 'postgresql'
    when 'mysql' then 'mysql'
    else 'redis'
  end as fix_text,
  case when refused > 0 or connections > 0.95 * connection_limit then 'page' else 'mail' end as class
from looks
where place = 1 and (connections > 0.8 * connection_limit or refused > 0)
