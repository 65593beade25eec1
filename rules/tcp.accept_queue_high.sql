/*---
id = "tcp.accept_queue_high"
title = "An accept queue is more than half full again and again"
tier = "app"
class = "mail"
for = "4s"
every = "2s"
clear = "10s"
key = ["netns", "server_address", "server_port"]
needs = ["listener"]
when = "select 1 from listener where accept_queue_length >= 5 and ts > $now - interval '10 seconds' and ts <= $now limit 1"
explained_by = ["tcp.listen_overflow", "app.fd_limit", "disk.stuck", "disk.member_outlier", "disk.slow", "mem.thrash", "cpu.cgroup_throttled", "app.blocked_on_store"]
subject = "{process} on {endpoint}"
summary = "{process} on {endpoint} (netns {netns}) was at least half full at {high_samples} of {samples} samples in 10 s: at most {queue_length} of {queue_limit} connections waited for accept()"
why = "Connections are finished by the kernel faster than the process takes them. Nothing is lost yet; when the queue passes its limit, the kernel drops handshakes and visitors see a site that hangs (tcp.listen_overflow). Until then each waiting connection adds its time in the queue to the visitor's."
look_at = "Whether the process is short of processor (cpu_stat, cgroup_stat: throttled), of workers, or waits for what is below it (a database, a disk). The queue's length over the last minutes says whether it grows or comes in bursts."
silent_when = "Fewer than 3 of the last 10 seconds were above one half, so a single spike is nothing; queues of fewer than 5 connections are too small to tell. While the same listener overflows, this is a part of that finding and only a note."
fix = "Make {process} accept faster: more workers or threads, or mend what it waits for. If it is idle between bursts, raise the limit of {queue_limit}: a larger backlog in listen() and net.core.somaxconn at least as large, then restart it. Check: accept_queue_length stays below half of accept_queue_limit."
source = "diagnosis of the fault lab F40; listen(2); sock_diag idiag_rqueue and idiag_wqueue"
[chart]
title = "Accept queue and its limit"
unit = ""
sql = """
select ts, max(accept_queue_length) as accept_queue_length, max(accept_queue_limit) as accept_queue_limit
from listener
where ts > $now - interval '10 minutes' and ts <= $now and host = {host} and netns = {netns} and server_port = {server_port}
group by ts order by ts"""
---*/
with queues as (
  select host, netns, server_address, server_port,
    max(accept_queue_length) as queue_length,
    max(accept_queue_limit) as queue_limit,
    max(process_name) as process_name,
    max(process_id) as process_id,
    coalesce(max(tier), 'app') as tier,
    count(distinct ts) as samples,
    count(distinct ts) filter (where accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit) as high_samples
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_address, server_port
)
select host, netns, server_address, server_port,
  tier,
  coalesce(process_name, 'an unknown process') as process, process_id,
  case when server_address like '%:%' then concat('[', server_address, ']:', server_port)
       else concat(server_address, ':', server_port) end as endpoint,
  queue_length, queue_limit, high_samples, samples
from queues
where high_samples >= 3
