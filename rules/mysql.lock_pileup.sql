/*---
id = "mysql.lock_pileup"
title = "MySQL or MariaDB lock pile-up"
tier = "db"
class = "mail"
for = "1s"
every = "5s"
clear = "20s"
key = ["database_address"]
equal = ["service_names"]
needs = ["db_server"]
when = "select 1 from db_server where system = 'mysql' and waiting_on_lock >= 2 and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.errors", "app.errors_quiet", "app.pool_exhausted",
  "app.requests_stopped", "app.service_rejects", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "db.connections_exhausted", "db.statements_slow",
  "proxy.bad_gateway", "proxy.haproxy_backlog", "proxy.haproxy_errors", "proxy.haproxy_maxconn",
  "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.masked_errors", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak", "tcp.listen_overflow",
  "unix.accept_queue_full", "slo.burning", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "MySQL at {server_address}"
summary = "{waiting_on_lock} sessions of {server_address} wait for a lock for more than 5 s, most of them for {blocker_text}; {connections} of {connection_limit} connections in use"
why = "One session holds a row or a table (metadata lock) that others need, and each new one queues behind them with its connection: workers and pools of the applications run out, although the server is idle. A schema change that waits for one open transaction blocks all later statements on that table."
look_at = "`select * from sys.innodb_lock_waits` (MySQL, and MariaDB 10.6 and later), `select * from information_schema.innodb_trx order by trx_started limit 5`, `show processlist`: `Waiting for table metadata lock` beside an idle session with an open transaction is a program that forgot to commit, or an ALTER TABLE in front of it."
silent_when = "Fewer than 2 sessions that wait for more than 5 s, or fewer than 5 while most other sessions work on (defaults). Waits for `GET_LOCK` are intended and do not count. Only servers of `[[databases]]` are probed, by a user with PROCESS. It is a page from 5 on."
fix = "End the blocker, {blocker_text}: `kill PROCESS`. Its transaction is rolled back, which can take as long as it ran. To prevent it: `innodb_lock_wait_timeout = 10` (50 by default), `set lock_wait_timeout = 5` before each ALTER TABLE, and a commit or rollback on every path of the program. Check: waiting_on_lock is 0. Raising max_connections only makes the queue longer."
source = "MySQL manual, InnoDB lock waits and metadata locking; github.com/github/gh-ost #82; dba.stackexchange.com 1469"
[chart]
title = "Sessions that wait for a lock"
unit = ""
sql = """
select ts, waiting_on_lock, sessions_active from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select *, row_number() over (partition by host, server_address order by ts desc) as place
  from db_server
  where system = 'mysql' and ts > $now - interval '15 seconds' and ts <= $now and error is null
)
select host, server_address, server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(server_address, ':([0-9]+)$')[1], 'mysqld') as service_names, waiting_on_lock, sessions_active, connections, connection_limit,
  coalesce(blocker, 'a session that is unknown or has ended') as blocker_text,
  case when waiting_on_lock >= 5 then 'page' else 'mail' end as class
from looks
where place = 1 and (waiting_on_lock >= 5 or (waiting_on_lock >= 2 and waiting_on_lock >= 0.5 * sessions_active))
