/*---
id = "tcp.accept_pause"
title = "Brief pause: nothing accepted for seconds"
tier = "app"
class = "note"
for = "0s"
every = "5s"
clear = "10m"
key = ["netns", "server_address", "server_port"]
needs = ["listener"]
when = "select 1 from listener where accept_queue_length >= 3 and ts > $now - interval '40 seconds' and ts <= $now limit 1"
explains = ["app.brief_stall"]
subject = "{process} on {endpoint}"
summary = "{process} on {endpoint} (netns {netns}) accepted nothing for about {lasted:.0} s ({from_text} to {to_text} UTC); {peak} connections waited, then all were accepted"
why = "The accept queue is empty before and after, and only grew in between: the process, or its accepting thread, stood still. Typical are stop-the-world garbage collection, a blocked event loop, a lock, a reload of workers, a CPU quota, or a paused virtual machine. An access log without durations does not show it."
look_at = "The process' own log and its garbage-collector log at that time; cron jobs, checkpoints and backups of that minute; cgroup_stat for throttling and cpu_stat for steal. Does it repeat: this finding's history."
silent_when = "Fewer than 3 connections in the queue at the end, a queue that shrank meanwhile (the process accepts, only slowly), pauses under 2 s or over 15 s (tcp.accept_queue_high names those while they last), or a queue that was in use in the 5 s before or the 3 s after."
fix = "One pause needs no action. If it repeats: garbage collection (smaller heap, a concurrent collector), synchronous work in an event loop (move it to a worker), or a CPU quota that is used up (cgroup_stat). A longer backlog does not help. Check: no new finding of this kind in a day."
source = "sock_diag idiag_rqueue of listening sockets, sampled each second; golang/go #17341, Hyperfoil/Hyperfoil #383"
[chart]
title = "Accept queue"
unit = ""
sql = """
select ts, sum(accept_queue_length) as accept_queue_length from listener
where host = {host} and netns = {netns} and server_port = {server_port} and ts > $now - interval '10 minutes' and ts <= $now
group by ts order by ts"""
---*/
with samples as (
  select host, netns, server_address, server_port, ts, sum(accept_queue_length) as length,
    lag(sum(accept_queue_length)) over (partition by host, netns, server_address, server_port order by ts) as length_before,
    row_number() over (partition by host, netns, server_address, server_port order by ts) as place,
    max(process_name) as process_name, count(*) over (partition by host, netns, server_address, server_port) as samples
  from listener
  where ts > $now - interval '40 seconds' and ts <= $now
  group by host, netns, server_address, server_port, ts
),
used as (
  select *, place - row_number() over (partition by host, netns, server_address, server_port order by ts) as run
  from samples
  where length >= 1
),
runs as (
  select host, netns, server_address, server_port, run, max(process_name) as process_name, max(samples) as samples,
    min(ts) as from_ts, max(ts) as to_ts, min(place) as first_place, max(place) as last_place, max(length) as peak, count(*) as seconds,
    count(*) filter (where length < length_before) as falls
  from used
  group by host, netns, server_address, server_port, run
),
alone as (
  select *, coalesce(first_place - lag(last_place) over w, first_place) as gap_before,
    coalesce(lead(first_place) over w - last_place, samples - last_place + 1) as gap_after
  from runs
  window w as (partition by host, netns, server_address, server_port order by from_ts)
),
pauses as (
  select *, row_number() over (partition by host, netns, server_address, server_port order by seconds desc) as choice
  from alone
  where seconds between 2 and 15 and falls = 0 and peak >= 3 and gap_before > 5 and gap_after > 3
)
select p.host, p.netns, p.server_address, p.server_port, coalesce(p.process_name, 'an unknown process') as process,
  case when p.server_address like '%:%' then concat('[', p.server_address, ']:', p.server_port)
    else concat(p.server_address, ':', p.server_port) end as endpoint,
  cast(p.seconds as double) as lasted, p.peak, p.from_ts, p.to_ts,
  regexp_match(cast(p.from_ts as varchar), '([0-9]+:[0-9]+:[0-9]+)')[1] as from_text,
  regexp_match(cast(p.to_ts as varchar), '([0-9]+:[0-9]+:[0-9]+)')[1] as to_text
from pauses p
where choice = 1
