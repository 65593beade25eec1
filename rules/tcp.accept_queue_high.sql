/*---
id = "tcp.accept_queue_high"
title = "Accept queue filling up or not drained"
tier = "app"
class = "mail"
for = "4s"
every = "2s"
clear = "10s"
key = ["netns", "server_address", "server_port"]
needs = ["listener", "request", "host_info", "tcp_stat", "process_stat", "tcp_wait"]
when = [
  "select 1 from listener where accept_queue_length >= 1 and ts > $now - interval '10 seconds' and ts <= $now limit 1",
  """
select 1 from listener
where ts > $now - interval '10 seconds' and ts <= $now
group by host, netns, server_address, server_port, socket_inode
having min(accept_queue_length) >= 1
  or count(*) filter (where accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit) >= 3
limit 1""",
]
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.close_wait_leak",
  "proxy.upstream_hangs",
]
subject = "{process} on {endpoint}"
summary = "{process} on {endpoint} (netns {netns}): accept queue at least half full in {high_samples} of {samples} samples in 10 s, peak {queue_length} of {queue_limit}"
why = "The kernel completes connections faster than the process accepts them. Nothing is lost yet; at its limit the kernel drops handshakes and clients see a site that hangs (tcp.listen_overflow). Until then each connection's time in the queue adds to the client's latency."
look_at = "Whether the process lacks CPU (cpu_stat, cgroup_stat: throttled) or workers, or waits for something below it (a database, a disk). The queue's length over the last minutes shows whether it grows or comes in bursts. With SO_REUSEPORT each worker has a socket of its own, and the kernel gives each its share of the connections however long its queue is: `ss -ltnp 'sport = :{server_port}'` shows the queue of each."
silent_when = "Fewer than 3 of the last 10 seconds were above one half, so a single spike is ignored; queues of fewer than 5 connections are too small to judge. A queue of any length counts if it was never empty and never shrank in 20 s, or in 10 s in which 3 connections came: a process that accepts at all takes one out in that time, unless clients fill it up at once: then responses of that port in a proxy's log show that it accepts; it is a page from 3 connections on. A queue that moves counts if 3 connections or more waited in each sample of 20 s, and each for 0.5 s at least, even if all connections that the namespace accepted were its own. While the same listener overflows, or a slow application or a database holds its workers, this belongs to that finding and is only a note."
fix = "Make {process} accept faster: more workers or threads, or fix what it waits for. If it is idle between bursts, raise the limit of {queue_limit}: a larger backlog in listen() and net.core.somaxconn at least as large, then restart it. Check: accept_queue_length stays below half of accept_queue_limit."
source = "diagnosis of the fault lab F40; listen(2); sock_diag idiag_rqueue and idiag_wqueue"
[text.summary]
stuck = "{process} on {endpoint} (netns {netns}) stopped accepting: {waiting} of {queue_limit} connections waiting, none accepted in {waiting_seconds} s{cpu_note}{wait_note}"
stuck_member = "{process} (process {process_id}) on {endpoint} (netns {netns}) stopped accepting: {waiting} of {queue_limit} waiting, none accepted in {waiting_seconds} s; {affected} of {sockets} sockets"
high_member = "{process} (process {process_id}) on {endpoint} (netns {netns}): its accept queue at least half full in {high_samples} of {samples} samples in 10 s, peak {queue_length} of {queue_limit}; {affected} of {sockets} sockets"
busy = "{process} on {endpoint} (netns {netns}): connections wait for {least_wait_seconds:duration} or longer until they are accepted, {least} or more in each sample of 20 s{cpu_note}{wait_note}"
[text.why]
busy = "No worker is free: in each sample of 20 s connections waited. An access log without times shows only complete requests with 200, and a client waits in the queue before its request even begins."
stuck_member = "Each worker has a separate socket (SO_REUSEPORT), and the kernel spreads new connections over the sockets without regard to their queues. The clients that get the socket of this worker see an established connection and no response, those of the other sockets notice nothing: one of {sockets} attempts hangs, and no average shows it."
stuck = "Its clients see an established connection and no response until they time out. A busy process accepts a connection from time to time; this one is stopped, hangs in a lock or a blocking call, or has lost its accepting thread."
[text.fix]
stuck_member = "Process {process_id} alone is stuck: `cat /proc/{process_id}/status | grep State` (T: stopped, `kill -CONT`; D: waiting for a disk), `cat /proc/{process_id}/wchan`, its own stack dump (py-spy dump, jstack, kill -QUIT). Save that, then end this one process: its socket closes with it (net.ipv4.tcp_migrate_req=1 moves the waiting connections to the others), and its master starts another. Check: no socket of {endpoint} has a queue."
stuck = "Find out what {process} is doing: `cat /proc/{process_id}/status | grep State` (T: stopped, `kill -CONT`; D: waiting for a disk; R: computing, `perf top -p {process_id}`), `cat /proc/{process_id}/wchan`, its own stack dump (jstack, py-spy dump, kill -QUIT). Save that, then restart it. A longer queue does not help. Check: accept_queue_length is 0 again."
[chart]
title = "Accept queue and its limit"
unit = ""
sql = """
select ts, max(accept_queue_length) as accept_queue_length, max(accept_queue_limit) as accept_queue_limit
from listener
where ts > $now - interval '10 minutes' and ts <= $now and host = {host} and netns = {netns} and server_port = {server_port}
group by ts order by ts"""
---*/
with steps as (
  select host, netns, server_address, server_port, socket_inode, accept_queue_length as length,
    lag(accept_queue_length) over (partition by host, netns, server_address, server_port, socket_inode order by ts) as length_before,
    ts > $now - interval '10 seconds' as is_late
  from listener
  where ts > $now - interval '20 seconds' and ts <= $now
),
own as (
  select host as own_host, concat(' ', last_value(addresses order by ts), ' ') as own_addresses
  from host_info where ts > $now - interval '2 hours' and ts <= $now group by host
),
sharing as (
  -- With SO_REUSEPORT the responses of one socket say nothing about the others.
  select host as sharing_host, netns as sharing_netns, server_address as sharing_address, server_port as sharing_port
  from listener
  where ts > $now - interval '20 seconds' and ts <= $now
  group by host, netns, server_address, server_port
  having count(distinct socket_inode) > 1
),
answering as (
  -- Closed-loop clients keep a queue at one length, though it moves: the log shows responses.
  select distinct host as answering_host, try_cast(split_part(upstream_address, ':', -1) as bigint) as answering_port,
    regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] as answering_address
  from request
  where ts > $now - interval '10 seconds' and ts <= $now and tier in ('proxy', 'edge') and upstream_header_seconds is not null
),
stuck as (
  select host, netns, server_address, server_port, socket_inode, max(length) as waiting,
    count(*) >= 16 and min(length) >= 1 and count(*) filter (where length < length_before) = 0 as is_long
  from steps
  left join own on own_host = host
  left join sharing on sharing_host = host and sharing_netns = netns and sharing_address = server_address and sharing_port = server_port
  left join answering on answering_port = server_port and (server_address in ('0.0.0.0', '::') or server_address = answering_address)
    and (host = answering_host and (server_address = answering_address or answering_address like '127.%' or answering_address = '::1') or own_addresses like concat('% ', answering_address, ' %'))
  where answering_port is null or sharing_port is not null
  group by host, netns, server_address, server_port, socket_inode
  having (count(*) >= 16 and min(length) >= 1 and count(*) filter (where length < length_before) = 0)
    or (count(*) filter (where is_late) >= 8 and min(length) filter (where is_late) >= 1
      and count(*) filter (where is_late and length < length_before) = 0
      and max(length) filter (where is_late) >= min(length) filter (where is_late) + 3)
),
opened as (
  select host as opened_host, netns as opened_netns, sum(increase) as opened
  from tcp_stat
  where counter = 'PassiveOpens' and ts > $now - interval '20 seconds' and ts <= $now
  group by host, netns
),
busy as (
  -- What the namespace accepted includes what this queue did, so that each connection waits at least so long.
  select host as busy_host, netns as busy_netns, server_address as busy_address, server_port as busy_port, socket_inode as busy_inode,
    min(length) as least, 20.0 * min(length) / max(opened) as least_wait_seconds
  from steps
  join opened on opened_host = host and opened_netns = netns
  group by host, netns, server_address, server_port, socket_inode
  having count(*) >= 16 and min(length) >= 3 and max(opened) > 0 and 40 * min(length) >= max(opened)
),
queues as (
  select host, netns, server_address, server_port, socket_inode, endpoint,
    max(accept_queue_length) as queue_length, max(accept_queue_limit) as queue_limit,
    coalesce(max(process_name), 'an unknown process') as process,
    coalesce(max(accepting_process_id), max(process_id)) as process_id, max(accepting_process_count) as accepting_process_count,
    coalesce(max(tier), 'app') as tier, count(*) as samples,
    count(*) filter (where accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit) as high_samples
  from listener_queue
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_address, server_port, socket_inode, endpoint
),
judged as (
  select q.*, s.waiting, s.is_long, b.least, b.least_wait_seconds,
    q.high_samples >= 3 or s.waiting is not null or b.least is not null as is_affected
  from queues q
  left join stuck s on s.host = q.host and s.netns = q.netns and s.server_address = q.server_address
    and s.server_port = q.server_port and s.socket_inode is not distinct from q.socket_inode
  left join busy b on b.busy_host = q.host and b.busy_netns = q.netns and b.busy_address = q.server_address
    and b.busy_port = q.server_port and b.busy_inode is not distinct from q.socket_inode
),
hanging as (
  -- What the program itself waits for.
  select host as hanging_host, process_name as hanging_process,
    last_value(concat('; ', waiting, ' of its ', connections, ' connections to ', case when server_address like '%:%' then concat('[', server_address, ']') else server_address end, ':', server_port, ' wait for a response') order by waiting, ts) as wait_note
  from tcp_wait
  where side = 'client' and longest_seconds >= 2 and waiting >= 3 and 2 * waiting >= connections and ts > $now - interval '20 seconds' and ts <= $now
  group by host, process_name
),
burning as (
  select host as burning_host, process_id as burning_id
  from process_stat
  where ts > $now - interval '20 seconds' and ts <= $now
  group by host, process_id
  having count(*) >= 3 and max(cpu_seconds_total) - min(cpu_seconds_total) >= 0.85 * (date_part('epoch', max(ts)) - date_part('epoch', min(ts)))
),
ranked as (
  select *, count(*) over (partition by host, netns, server_address, server_port) as sockets,
    count(*) filter (where is_affected) over (partition by host, netns, server_address, server_port) as affected,
    row_number() over (
      partition by host, netns, server_address, server_port
      order by case when waiting is not null then 0 else 1 end, waiting desc nulls last, queue_length desc, process_id
    ) as place
  from judged
)
select host, netns, server_address, server_port,
  tier, process, process_id, accepting_process_count, endpoint, queue_length, queue_limit, high_samples, samples, waiting,
  sockets, affected, least, least_wait_seconds,
  case when burning_id is not null then concat('; process ', process_id, ' keeps a CPU busy') else '' end as cpu_note,
  coalesce(wait_note, '') as wait_note,
  case when is_long then 20 when is_long is not null then 10 end as waiting_seconds,
  case when waiting is not null and affected < sockets then 'stuck_member' when waiting is not null then 'stuck'
    when high_samples < 3 then 'busy' when affected < sockets then 'high_member' end as summary,
  case when waiting is not null and affected < sockets then 'stuck_member' when waiting is not null then 'stuck' when high_samples < 3 then 'busy' end as why,
  case when waiting is not null and affected < sockets then 'stuck_member' when waiting is not null then 'stuck' end as fix,
  -- A slow application takes a connection from time to time, so it is not why this one takes none.
  case when waiting is not null then 'app.slow, app.slow_outlier, proxy.retry_storm' end as not_explained_by,
  case when waiting >= 3 then 'page' else 'mail' end as class
from ranked
left join burning on burning_host = host and burning_id = process_id
left join hanging on hanging_host = host and hanging_process = process
where place = 1 and is_affected
