/*---
id = "db.statements_slow"
title = "Database busy with long or many statements"
tier = "db"
class = "note"
for = "2s"
every = "4s"
clear = "20s"
key = ["database_address"]
equal = ["service_names"]
prefers = ["pg.lock_pileup", "mysql.lock_pileup", "disk.stuck", "disk.slow"]
needs = ["db_server", "cpu_stat"]
when = "select 1 from db_server where (longest_statement_seconds >= 5 or sessions_active >= 6) and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.errors", "app.errors_quiet", "app.pool_exhausted",
  "app.requests_stopped", "app.slow", "app.slow_quiet", "app.slow_requests_logged",
  "app.socket_backlog_full", "app.worker_timeout", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499",
  "cpu.saturated", "db.connections_exhausted", "proxy.bad_gateway", "proxy.haproxy_backlog",
  "proxy.haproxy_errors", "proxy.haproxy_maxconn", "proxy.haproxy_queue", "proxy.haproxy_slow",
  "proxy.masked_errors", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "{system} at {server_address}"
summary = "{system} at {server_address}: {active:.1} statements run at once ({past_text}){longest_text}"
why = "Each running statement keeps a connection of a pool and often a worker of the application. When statements take longer, more of them run at once, and all that share the CPUs, the disk or the buffer pool become slower in turn. The application's own profile shows only waiting."
look_at = "Which statement: PostgreSQL `select pid, now() - query_start as runs, wait_event, left(query, 80) from pg_stat_activity where state = 'active' order by 2 desc`; MySQL `show full processlist`, `select * from sys.statement_analysis limit 5`. An index that is missing, a plan that changed after ANALYZE, a report on the primary. wait_event NULL in PostgreSQL: it computes. Then the host: cpu.saturated, disk.slow."
silent_when = "The oldest running statement is younger than 10 s, and fewer than 6 run at once or less than three times the median of the last 10 minutes (defaults). Where a statement of 10 s and more ran in most of the last 10 minutes, long ones are usual and only many at once count. Sessions that wait for a lock do not count: pg.lock_pileup, mysql.lock_pileup. It is a note, because reports, dumps and index builds are long on purpose; as the cause of another finding it is as urgent as that one."
fix = "End a statement that can be spared: PostgreSQL `select pg_cancel_backend(PID)`, MySQL `kill query ID`; {longest_fix}. Then remove the reason: `explain` it and add the index that it lacks, run reports on a replica. To bound it: PostgreSQL `alter role app set statement_timeout = '10s'`, MySQL `set global max_execution_time = 10000` (MariaDB: `max_statement_time = 10`). Check: sessions_active of db_server is as before."
source = "PostgreSQL pg_stat_activity, statement_timeout; MySQL max_execution_time; Little's law"
[chart]
title = "Statements that run at once"
unit = ""
sql = """
select ts, sessions_active, waiting_on_lock, longest_statement_seconds from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with samples as (
  select host, system, server_address, ts, sessions_active - coalesce(waiting_on_lock, 0) as running, sessions_on_cpu,
    longest_statement_seconds, longest_statement, ts > $now - interval '12 seconds' as is_recent
  from db_server
  where ts > $now - interval '10 minutes' and ts <= $now and error is null and sessions_active is not null
),
recent as (
  select host, server_address, max(system) as system, avg(running) as active, min(running) as least, count(*) as looks,
    max(sessions_on_cpu) as on_cpu, max(longest_statement_seconds) as longest_seconds, max(longest_statement) as longest
  from samples where is_recent
  group by host, server_address
),
past as (
  select host, server_address, approx_percentile_cont(running, 0.5) as active, count(*) as looks,
    count(*) filter (where longest_statement_seconds >= 10) as long_looks
  from samples
  where ts <= $now - interval '40 seconds'
  group by host, server_address
),
judged as (
  select r.*, p.active as past_active, coalesce(p.looks, 0) as past_looks,
    r.looks >= 2 and r.least >= 6 and (coalesce(p.looks, 0) < 20 or r.active >= 3 * p.active) as is_many,
    r.longest_seconds >= 10 and coalesce(p.long_looks, 0) * 2 <= coalesce(p.looks, 0) as is_long
  from recent r
  left join past p on p.host = r.host and p.server_address = r.server_address
)
select host, server_address, server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(server_address, ':([0-9]+)$')[1], case system when 'mysql' then 'mysqld' else system end) as service_names, system, active, past_active, on_cpu, longest_seconds, longest,
  case when past_looks >= 20 then concat('median of the last 10 minutes: ', cast(round(past_active, 1) as varchar)) else 'no history yet' end as past_text,
  case when longest_seconds >= 1 then concat('; the oldest for ', cast(round(longest_seconds) as bigint), ' s: ', longest) else '' end as longest_text,
  case when longest is not null then concat('the oldest is ', longest) else 'the list above has its id' end as longest_fix
from judged
where is_many or is_long
