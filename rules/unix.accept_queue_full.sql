/*---
id = "unix.accept_queue_full"
title = "Unix socket's accept queue full: connect() fails"
tier = "app"
class = "page"
for = "1s"
every = "2s"
clear = "10s"
key = ["netns", "socket_path"]
needs = ["unix_listener", "log", "config_directive"]
when = [
  "select 1 from unix_listener where accept_queue_length >= 3 and ts > $now - interval '10 seconds' and ts <= $now limit 1",
  """
select 1 from unix_listener
where ts > $now - interval '10 seconds' and ts <= $now
group by host, netns, socket_path, socket_inode
having count(*) filter (where accept_queue_length > accept_queue_limit) >= 2
  or count(*) filter (where accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit) >= 3
  or (count(*) >= 8 and min(accept_queue_length) >= 1)
limit 1""",
]
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.socket_backlog_full", "client.aborts_499",
  "proxy.bad_gateway", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "slo.burning", "proxy.upstream_hangs",
]
subject = "{process} on {socket_path}"
summary = "{process} on {socket_path} ({host}): accept queue full in {full_samples} of 10 s, {queue_length} connections waiting, limit {queue_limit}{refused_text}"
why = "The process accepts connections more slowly than they come. At the limit the kernel refuses further ones at once: connect() of a proxy returns EAGAIN (errno 11, \"Resource temporarily unavailable\"), and clients get 502 within a millisecond, however healthy the proxy is. A Unix socket has no retransmission that would hide a short burst, and no kernel counter."
look_at = "What {process} does: `cat /proc/{process_id}/status | grep State`, its own log (PHP-FPM: `server reached pm.max_children`; gunicorn: `WORKER TIMEOUT`), a database or an API that all workers wait for. `ss -lx src {socket_path:sh}` shows queue (Recv-Q) and limit (Send-Q)."
silent_when = "The queue was full in fewer than 2 of the last 10 s, or has fewer than 3 connections. Without a log line about it, a queue with a limit below 64 on a socket that no proxy's configuration names is a mail: such small queues are often full by design. Half full in 3 of 10 s, or never shorter in 20 s with 3 connections or more, is a mail (a note for sockets that no proxy uses); so is a queue that moves in which 3 or more waited in each sample of 20 s."
fix = "Give {process} more workers, if CPU and memory allow it (PHP-FPM `pm.max_children`, gunicorn `--workers` and `--threads`), or fix what its workers wait for. For bursts raise the limit: PHP-FPM `listen.backlog = 4096`, gunicorn `--backlog 4096`, with net.core.somaxconn at least as large, then restart it. Check: the queue is shorter than its limit and no proxy logs errno 11."
source = "kernel net/unix/af_unix.c, unix_stream_connect and unix_recvq_full; unix(7); net/unix/diag.c"
[text.refused_text]
counted = "; {refusals} connections refused in 20 s (EAGAIN)"
unknown = ""
[text.summary]
stuck = "{process} on {socket_path} ({host}) stopped accepting: {waiting} of {queue_limit} connections waiting, none accepted in 20 s"
high = "{process} on {socket_path} ({host}): accept queue at least half full in {high_samples} of 10 s, peak {queue_length} of {queue_limit}"
busy = "{process} on {socket_path} ({host}): {least} or more connections waited for a free worker in each sample of 20 s, peak {queue_length} of {queue_limit}"
[text.why]
busy = "No worker is free: in each sample of 20 s connections waited. An access log without times shows only complete requests with 200, and a client waits in the queue before its request even begins. PHP-FPM with `pm = static` logs nothing about it."
stuck = "Its clients see an established connection and no response until they time out. A busy process accepts a connection from time to time; this one is stopped, hangs in a lock or a blocking call, or has lost its accepting thread. When the queue is full as well, connect() fails with EAGAIN and clients get 502."
[chart]
title = "Accept queue and its limit"
unit = ""
sql = """
select ts, max(accept_queue_length) as accept_queue_length, max(accept_queue_limit) as accept_queue_limit
from unix_listener
where ts > $now - interval '10 minutes' and ts <= $now and host = {host} and netns = {netns} and socket_path = {socket_path}
group by ts order by ts"""
---*/
with steps as (
  select *, lag(accept_queue_length) over (partition by host, netns, socket_path, socket_inode order by ts) as length_before,
    ts > $now - interval '10 seconds' as is_late
  from unix_listener
  where ts > $now - interval '20 seconds' and ts <= $now
),
queues as (
  select host, netns, socket_path, socket_inode,
    max(accept_queue_length) filter (where is_late) as queue_length, max(accept_queue_limit) as queue_limit,
    coalesce(max(process_name), 'an unknown process') as process,
    coalesce(max(accepting_process_id), max(process_id)) as process_id, max(accepting_process_count) as accepting_process_count,
    coalesce(max(tier), 'app') as tier,
    count(*) filter (where is_late and accept_queue_length > accept_queue_limit) as full_samples,
    count(*) filter (where is_late and accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit) as high_samples,
    case when count(*) >= 16 and min(accept_queue_length) >= 1 and max(accept_queue_length) >= 3
        and count(*) filter (where accept_queue_length < length_before) = 0
      then max(accept_queue_length) end as waiting,
    case when count(*) >= 16 and min(accept_queue_length) >= 3 then min(accept_queue_length) end as least
  from steps
  group by host, netns, socket_path, socket_inode
  having count(*) filter (where is_late) > 0
),
lines as (
  select host, coalesce(message_template, body) as body from log
  where ts > $now - interval '20 seconds' and ts <= $now and coalesce(message_template, body) like '%esource temporarily unavailable%'
),
refused as (
  select q.host, q.netns, q.socket_path, count(*) as refusals
  from queues q
  join lines l on l.host = q.host and length(q.socket_path) > 1 and strpos(l.body, q.socket_path) > 0
  group by 1, 2, 3
),
used as (
  select distinct host, case when program = 'haproxy' then regexp_match(arguments, '^[^ ]+ (unix@)?(/[^ ,]+)')[2]
      else regexp_match(arguments, 'unix:/*(/[^ :;|]+)')[1] end as socket_path
  from config_directive
  where (arguments like '%unix:%' or program = 'haproxy' and directive = 'server' and arguments like '% %/%')
    and directive <> 'listen' and ts > $now - interval '2 hours' and ts <= $now
),
judged as (
  select q.*, coalesce(r.refusals, 0) as refusals, u.host is not null or r.refusals > 0 as is_upstream,
    row_number() over (partition by q.host, q.netns, q.socket_path order by q.queue_length desc, q.socket_inode desc) as place
  from queues q
  left join refused r on r.host = q.host and r.netns = q.netns and r.socket_path = q.socket_path
  left join used u on u.host = q.host and u.socket_path = q.socket_path
  where q.queue_length >= 3 and (q.full_samples >= 2 or q.high_samples >= 3 or q.waiting is not null or q.least is not null)
)
select host, netns, socket_path, tier, process, process_id, accepting_process_count, queue_length, queue_limit,
  full_samples, high_samples, waiting, least, refusals, is_upstream,
  case when refusals > 0 then 'counted' else 'unknown' end as refused_text,
  case when waiting is not null and (refusals = 0 or full_samples < 2) then 'stuck'
    when full_samples < 2 and high_samples < 3 then 'busy' when full_samples < 2 then 'high' end as summary,
  case when waiting is not null then 'stuck' when full_samples < 2 and high_samples < 3 then 'busy' end as why,
  case when full_samples >= 2 and (is_upstream or queue_limit >= 64) then 'page'
    when waiting is not null and is_upstream then 'page'
    when full_samples >= 2 or is_upstream or queue_limit >= 64 and high_samples >= 3 then 'mail'
    else 'note' end as class
from judged
where place = 1
