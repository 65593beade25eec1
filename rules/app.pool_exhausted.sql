/*---
id = "app.pool_exhausted"
title = "Application's connection pool is exhausted"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "20s"
key = ["program"]
prefers = [
  "pg.lock_pileup", "mysql.lock_pileup", "redis.blocked", "db.not_answering",
  "db.connections_exhausted", "db.statements_slow",
]
needs = ["log", "db_server"]
when = "select 1 from log where (body like '%pool%' or body like '%Pool%' or body like '%too many c%' or body like '%Too many connections%' or body like '%connection slots are reserved%' or body like '%max number of clients%' or body like '%timeout exceeded when trying to connect%' or body like '%query_wait_timeout%' or body like '%no more connections allowed%' or body like '%get a connection after%' or body like '%unable to fetch a connection in%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.socket_backlog_full", "app.worker_timeout", "app.workers_exhausted", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.close_wait_leak", "unix.accept_queue_full",
]
subject = "{shown} on {host}"
summary = "{shown} on {host}: {lines} times in 30 s {what_text}{server_text}"
why = "{why_text}"
look_at = "The line itself: {line}. How long each request keeps its connection: a transaction around a call to another service, a connection that is not given back on an error path (the number only rises, and a restart helps for a while), or statements that became slow (db.statements_slow). Workers × pool size against `max_connections`."
silent_when = "Fewer than 3 such lines in 30 s. Only logs that weir follows are read, and not those of web servers, PHP-FPM and sshd, whose lines are full of what visitors wrote. A message that merely mentions a pool does not count: the known wordings of common pools and servers do (SQLAlchemy, HikariCP, knex, node-postgres, ActiveRecord, Npgsql, go-redis, Jedis, DBCP, PgBouncer)."
fix = "{fix_text} Check: such lines end."
source = "SQLAlchemy error 3o7r; HikariCP connectionTimeout; node-postgres pool.connect; PostgreSQL errors 53300; MySQL error 1040"
[text.what_text]
pool = "no connection of its pool was free"
server = "the database server refused a connection: too many clients"
[text.server_text]
free = "; the server {server_address} has {free} free connections, so the pool is the limit"
full = "; the server {server_address} has {connections} of {connection_limit} connections in use"
unknown = ""
[text.why_text]
pool = "Each request waits for a free connection until the pool's timeout and then fails. The limit is in the application, not in the database: its connections are all in use, or were never given back."
server = "The server has a limit for all clients together. The next connection gets an error, in every application that shares it."
[text.fix_text]
pool = "First shorten what holds connections: no calls to other services inside a transaction, every path gives the connection back (`with`, `try/finally`, `defer rows.Close()`), a timeout for statements. Only if statements are short and the server has free connections: a larger pool (`pool_size`, `maximumPoolSize`, `max`), so that workers × pool stays below the server's limit."
server = "Shrink the pools so that their total stays below the server's limit, or put a pooler in front (pgbouncer, ProxySQL). Find out who holds the connections: db.connections_exhausted shows it for servers in `[[databases]]`."
---*/
with lines as (
  select host, program, body, ts,
    case
      when body like '%too many clients already%' or body like '%remaining connection slots are reserved%' or body like '%Too many connections%'
        or body like '%max number of clients reached%' or body like '%too many connections for role%' or body like '%no more connections allowed%' then 'server'
      when body like '%QueuePool limit of size%' or body like '%Connection is not available, request timed out%'
        or body like '%Timeout acquiring a connection%' or body like '%could not obtain a connection from the pool%'
        or body like '%timeout exceeded when trying to connect%' or body like '%connection pool has been exhausted%'
        or body like '%prior to obtaining a connection from the pool%' or body like '%redis: connection pool timeout%'
        or body like '%Could not get a resource from the pool%' or body like '%Cannot get a connection, pool error%'
        or body like '%connection pool exhausted%' or body like '%PoolTimeout%' or body like '%Timed out fetching a new connection from the connection pool%'
        or body like '%query_wait_timeout%' or body like '%couldn''t get a connection after%' or body like '%ConnectionTimeoutError%pool%'
        or body like '%unable to fetch a connection in%' or body like '%pool timed out while waiting for an open connection%' then 'pool'
    end as kind
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    -- Their lines are full of what visitors wrote.
    and program not in ('nginx', 'haproxy', 'apache', 'apache2', 'httpd', 'php-fpm', 'sshd')
    and (body like '%pool%' or body like '%Pool%' or body like '%too many c%' or body like '%Too many connections%' or body like '%connection slots are reserved%'
      or body like '%max number of clients%' or body like '%timeout exceeded when trying to connect%' or body like '%query_wait_timeout%'
      or body like '%no more connections allowed%' or body like '%couldn''t get a connection after%' or body like '%unable to fetch a connection in%')
),
counted as (
  select host, program, kind, count(*) as lines, max(left(body, 160)) as line
  from lines where kind is not null
  group by host, program, kind
),
most as (
  select *, row_number() over (partition by host, program order by lines desc) as place from counted
),
servers as (
  select host, server_address, connections, connection_limit,
    row_number() over (partition by host order by case when system = 'redis' then 1 else 0 end, cast(connections as double) / connection_limit desc, ts desc) as place
  from db_server
  where ts > $now - interval '15 seconds' and ts <= $now and connection_limit > 0 and connections is not null
)
select m.host, m.program, m.lines, m.line, s.server_address, s.connections, s.connection_limit, s.connection_limit - s.connections as free,
  case when m.program = 'other' then 'an application' else m.program end as shown,
  m.kind as what_text, m.kind as why_text, m.kind as fix_text,
  case when s.server_address is null then 'unknown'
       when m.kind = 'pool' and s.connections < 0.8 * s.connection_limit then 'free' else 'full' end as server_text
from most m
left join servers s on s.host = m.host and s.place = 1
where m.place = 1 and m.lines >= 3
