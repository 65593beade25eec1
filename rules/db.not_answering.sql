/*---
id = "db.not_answering"
title = "Database server stopped answering"
tier = "db"
class = "page"
for = "0s"
every = "2s"
clear = "20s"
key = ["database_address"]
equal = ["service_names"]
prefers = ["mem.oom_kill"]
needs = ["db_server"]
when = "select 1 from db_server where error is not null and ts > $now - interval '25 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.check_failing", "app.errors", "app.errors_quiet",
  "app.health_digest_missing", "app.pool_exhausted", "app.requests_stopped", "app.service_rejects",
  "app.service_unreachable", "wire.connect_unanswered", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "db.replica_behind", "proxy.bad_gateway",
  "proxy.haproxy_backlog", "proxy.haproxy_errors", "proxy.haproxy_maxconn", "proxy.haproxy_queue",
  "proxy.haproxy_slow", "proxy.retry_amplification", "proxy.retry_storm", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning",
  "app.service_hangs", "proxy.upstream_hangs",
]
subject = "{system} at {server_address}"
summary = "{system} at {server_address} failed {failures} probes in a row: {error} (last one after {duration_seconds:duration}); it answered {answered_text}"
why = "Every application that needs it is waiting or failing by now. A server that accepts connections and never answers is worse than one that is gone: clients wait for their full timeout, so all workers of the application are soon occupied."
look_at = "Does its process run, and in which state (`ps -o pid,stat,wchan:30,cmd -C postgres,mariadbd,redis-server`): T is stopped, D waits for its disk (disk.stuck); if it is gone, the last lines of its log and `dmesg` (mem.oom_kill). \"connection refused\": nothing listens on that port. \"no answer within 2 s\": it is stopped, or a long command blocks it (Redis: `SLOWLOG GET` later), or the network drops packets."
silent_when = "Fewer than 2 failed probes in a row (2 s apart, each waits 2 s), or a server that did not answer once in the last hour: then the entry in `[[databases]]` is wrong. A refused login is an answer: the server runs. A restart shorter than two probes stays silent."
fix = "Bring {server_address} back: `systemctl status` and the server's own log show why it stopped; start it, continue it (`kill -CONT PID`) if it was stopped, or fail over to the replica if its disk or host is faulty. In the applications: timeouts for connecting and for each query below the proxy's, so that they fail fast the next time. Check: db_server has rows without an error again."
source = "fault lab F23 (Redis stopped by SIGSTOP: its clients wait); kernel signal(7)"
[chart]
title = "Time to answer a probe"
unit = "s"
sql = """
select ts, duration_seconds from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select host, system, server_address, ts, error, duration_seconds,
    -- A refused login is an answer.
    error is not null and (error like '%: no answer within%' or error like '%: connection re%' or error like '%: no route%'
      or error like '%: network is unreachable%' or error like '%: no such file%' or error like '%: failed to fill%'
      or error like '%: broken pipe%' or error like '%timed out%') as is_silent,
    row_number() over (partition by host, server_address order by ts desc) as place
  from db_server
  where ts > $now - interval '25 seconds' and ts <= $now
),
silent as (
  select host, server_address, max(system) as system, count(*) as looks,
    count(*) filter (where is_silent) as failures,
    max(error) filter (where place = 1) as error, max(duration_seconds) filter (where place = 1) as duration_seconds
  from looks
  where place <= 4
  group by host, server_address
  having count(*) filter (where place <= 2 and is_silent) = 2
),
past as (
  select host, server_address, max(ts) as answered
  from db_server
  where error is null and ts > $now - interval '1 hour' and ts <= $now
  group by host, server_address
)
select s.host, s.server_address, s.server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(s.server_address, ':([0-9]+)$')[1], case s.system when 'mysql' then 'mysqld' else s.system end) as service_names,
  case s.system when 'mysql' then 'mysqld' else s.system end as database_program, s.system, s.failures, s.error, s.duration_seconds,
  case when p.answered is null then 'not once in the last hour'
       else concat('last ', cast(round(date_part('epoch', $now) - date_part('epoch', p.answered)) as bigint), ' s ago') end as answered_text,
  p.answered is not null as opens
from silent s
left join past p on p.host = s.host and p.server_address = s.server_address
