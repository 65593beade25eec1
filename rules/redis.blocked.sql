/*---
id = "redis.blocked"
title = "Redis blocked by slow commands"
tier = "db"
class = "mail"
for = "0s"
every = "2s"
clear = "15s"
key = ["database_address"]
equal = ["service_names"]
prefers = ["cpu.saturated", "mem.thrash"]
needs = ["db_server"]
when = "select 1 from db_server where system = 'redis' and (duration_seconds > 0.2 or slowest_command_seconds > 0.2 or error like '%BUSY %') and ts > $now - interval '20 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.errors", "app.errors_quiet", "app.pool_exhausted",
  "app.requests_stopped", "app.slow", "app.slow_quiet", "app.slow_requests_logged",
  "app.socket_backlog_full", "app.worker_timeout", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499",
  "db.not_answering", "proxy.bad_gateway", "proxy.haproxy_backlog", "proxy.haproxy_errors",
  "proxy.haproxy_maxconn", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.masked_errors",
  "proxy.retry_amplification", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "Redis at {server_address}"
summary = "Redis at {server_address} is blocked: {slow_looks} of {looks} probes in 20 s took over 200 ms (worst {worst_seconds:duration}, usually {usual_text}){command_text}"
why = "Redis runs one command at a time: while a slow one runs, every client waits, weir's probe as well. The commands that suffer are the fast ones of others."
look_at = "`redis-cli SLOWLOG GET 10`: the commands with their arguments and clients. KEYS, SMEMBERS or HGETALL of a large key, SORT, a Lua script (EVAL), DEL of a large key. `INFO commandstats`: usec_per_call. Without slow commands: a fork for RDB or AOF (`latest_fork_usec`), swap, or an overloaded host."
silent_when = "Fewer than 2 of the last probes took over 200 ms, or they take that long usually (a distant server: median of the last 10 minutes). A single outage, however long, is left to db.not_answering unless SLOWLOG names the command. One slow command is a note, and so are late answers while SLOWLOG has no slow command (the host or the network is late then). Only servers of `[[databases]]` are probed."
fix = "{fix_text} Check: duration_seconds of db_server is below 0.01 again."
source = "redis.io, \"Diagnosing latency issues\" and SLOWLOG; github.com/redis/redis #4569"
[text.fix_text]
busy = "`redis-cli SCRIPT KILL` ends the script that runs now, if it has written nothing yet (else `SHUTDOWN NOSAVE` is the only way, which loses the writes since the last save)."
known = "Take {slowest_command} out of the application: SCAN instead of KEYS, HSCAN and SSCAN for large collections, UNLINK instead of DEL, short scripts. At once: `redis-cli CLIENT KILL ADDR …` for the client that sends it, and `ACL SETUSER app -{slowest_command}` so that it cannot do it again."
unknown = "Let weir name the command: `ACL SETUSER weir +slowlog|get`. Then take it out of the application: SCAN instead of KEYS, UNLINK instead of DEL, short scripts."
[text.command_text]
busy = "; a script runs for longer than `lua-time-limit`"
known = "; slowest command: {slowest_command}, {slowest_seconds:duration}"
unknown = ""
[chart]
title = "Time to answer a probe"
unit = "s"
sql = """
select ts, duration_seconds, slowest_command_seconds from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with samples as (
  select *, ts > $now - interval '20 seconds' as is_recent, coalesce(error like '%BUSY %', false) as is_busy,
    coalesce(error like '%no answer within%', false) as is_silent,
    coalesce(lag(error) over (partition by host, server_address order by ts) like '%no answer within%', false) as was_silent
  from db_server
  where system = 'redis' and ts > $now - interval '10 minutes' and ts <= $now
),
recent as (
  select host, server_address, count(*) as looks,
    count(*) filter (where duration_seconds > 0.2 and (error is null or is_silent)) as slow_looks,
    count(*) filter (where duration_seconds > 0.2 and error is null) as slow_answers,
    count(*) filter (where is_silent and not was_silent) as silences,
    count(*) filter (where is_busy) as busy_looks, max(duration_seconds) as worst_seconds,
    max(slowest_command_seconds) as slowest_seconds, sum(slow_commands_increase) as slow_commands
  from samples where is_recent
  group by host, server_address
),
named as (
  select host, server_address, slowest_command, row_number() over (partition by host, server_address order by slowest_command_seconds desc) as place
  from samples
  where is_recent and slowest_command is not null
),
usual as (
  select host, server_address, approx_percentile_cont(duration_seconds, 0.5) as usual_seconds
  from samples where not is_recent and error is null
  group by host, server_address
)
select r.host, r.server_address, r.server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(r.server_address, ':([0-9]+)$')[1], 'redis') as service_names, r.looks, r.slow_looks, r.busy_looks, r.worst_seconds, r.slowest_seconds, r.slow_commands, n.slowest_command,
  u.usual_seconds,
  case when u.usual_seconds is null then 'unknown' else concat(cast(round(u.usual_seconds * 1000, 1) as varchar), ' ms') end as usual_text,
  case when r.busy_looks > 0 then 'busy' when r.slowest_seconds > 0.05 then 'known' else 'unknown' end as command_text,
  case when r.busy_looks > 0 then 'busy' when r.slowest_seconds > 0.05 then 'known' else 'unknown' end as fix_text,
  -- Late answers without a slow command: the host, the network, a fork.
  case when r.busy_looks > 0 then 'mail'
       when r.slow_looks >= 2 and (r.slow_commands is null or r.slowest_seconds > 0.05) then 'mail'
       else 'note' end as class
from recent r
left join named n on n.host = r.host and n.server_address = r.server_address and n.place = 1
left join usual u on u.host = r.host and u.server_address = r.server_address
where (r.slow_looks >= 2 or r.busy_looks >= 1 or r.slowest_seconds > 0.2)
  and coalesce(u.usual_seconds, 0.0) < 0.2
  -- A single outage is db.not_answering's; the late answer that ends it is no evidence of a slow command.
  and (r.slow_answers >= 2 or r.silences >= 2 or r.busy_looks >= 1 or r.slowest_seconds > 0.2)
