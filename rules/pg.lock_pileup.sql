/*---
id = "pg.lock_pileup"
title = "PostgreSQL lock pile-up"
tier = "db"
class = "page"
for = "1s"
every = "5s"
clear = "20s"
key = ["database_address"]
equal = ["service_names"]
needs = ["db_server", "pg_activity"]
when = """
select 1 from db_server where system = 'postgresql' and waiting_on_lock >= 2 and ts > $now - interval '15 seconds' and ts <= $now
union all
select 1 from pg_activity where waiting_on_lock >= 2 and ts > $now - interval '15 seconds' and ts <= $now limit 1"""
explains = [
  "app.blocked_on_store", "app.errors", "app.errors_quiet", "app.pool_exhausted",
  "app.requests_stopped", "app.service_rejects", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "db.connections_exhausted", "db.statements_slow",
  "proxy.bad_gateway", "proxy.haproxy_backlog", "proxy.haproxy_errors", "proxy.haproxy_maxconn",
  "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.masked_errors", "proxy.retry_amplification",
  "proxy.retry_storm", "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak", "tcp.listen_overflow",
  "unix.accept_queue_full", "slo.burning", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "PostgreSQL at {server_address}"
summary = "{waiting_on_lock} sessions of {server_address} wait for a lock for more than 5 s, most of them for {blocker_text}; {connections_text}{change_text}"
why = "One session holds a lock that others need, and each new one queues behind them with its connection: the connection pool runs out and the whole site stalls, although the database is idle."
look_at = "`select pid, pg_blocking_pids(pid), state, xact_start, left(query, 80) from pg_stat_activity where wait_event_type = 'Lock' or pid = any(pg_blocking_pids(pid))`. A blocker that is \"idle in transaction\" is a program that forgot to commit; an active one is a long schema change or a large update."
silent_when = "Fewer than 5 sessions that wait for more than 5 s, unless they are 2 or more and most of all that run a statement: then it is a mail, because a small application is stopped by it (defaults). Servers of `[[databases]]` are queried by a user with pg_monitor; others are judged by the titles of their processes, where the blocker is a guess and `update_process_title = off` hides all. A schema change in a maintenance window looks the same."
fix = "End the blocker, {blocker_text}: `select pg_terminate_backend(PID);`. Its transaction is rolled back. To prevent it: `idle_in_transaction_session_timeout = '60s'` for programs that forget, `set lock_timeout = '3s'` before each ALTER TABLE, with retries. Check: waiting_on_lock is 0. Raising max_connections only makes the queue longer."
source = "fault lab F22 (5 waiters, the blocker named); PostgreSQL documentation §28.2.3, pg_blocking_pids"
[chart]
title = "Sessions that wait for a lock"
unit = ""
sql = """
select ts, waiting_on_lock, connections from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now
union all
select ts, waiting_on_lock, sessions from pg_activity
where host = {host} and process_id = {postmaster} and ts > $now - interval '15 minutes' and ts <= $now
order by ts"""
---*/
with looks as (
  select *, row_number() over (partition by host, server_address order by ts desc) as place
  from db_server
  where system = 'postgresql' and ts > $now - interval '15 seconds' and ts <= $now
),
titles as (
  select *, row_number() over (partition by host, netns, process_id order by ts desc) as place,
    concat(case when server_port is null then concat('process ', process_id) else concat('port ', server_port) end,
      case when netns = 'host' then '' else concat(' (netns ', netns, ')') end) as server_address
  from pg_activity
  where ts > $now - interval '15 seconds' and ts <= $now
),
queried as (
  select distinct host as queried_host from looks where waiting_on_lock is not null
),
servers as (
  select host, server_address, 0 as postmaster, waiting_on_lock, sessions_active,
    coalesce(blocker, 'a session that has ended meanwhile') as blocker_text,
    concat(connections, ' of ', connection_limit, ' connections in use') as connections_text, '' as change_text
  from looks
  where place = 1
  union all
  select host, server_address, process_id, waiting_on_lock, sessions_active,
    coalesce(concat('probably ', blocker), 'a session that has ended meanwhile'),
    concat(sessions, ' sessions in all'), coalesce(concat('; ', queued_change, ', waits as well, and later sessions behind it'), '')
  from titles
  left join queried on queried_host = host
  where place = 1 and queried_host is null
)
select host, server_address, server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(server_address, ':([0-9]+)$')[1], 'postgresql') as service_names, postmaster, waiting_on_lock, blocker_text, connections_text, change_text,
  case when waiting_on_lock >= 5 then 'page' else 'mail' end as class
from servers
where waiting_on_lock >= 5 or (waiting_on_lock >= 2 and waiting_on_lock >= 0.5 * sessions_active)
