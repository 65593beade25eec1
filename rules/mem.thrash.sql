/*---
id = "mem.thrash"
title = "Memory thrashing (page-cache refaults)"
tier = "host"
class = "mail"
for = "4s"
every = "4s"
clear = "60s"
key = []
needs = ["mem_stat", "pressure", "cgroup_stat"]
when = "select 1 from pressure where resource = 'memory' and some_avg10_ratio > 0.05 and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.health_digest_missing", "app.requests_stopped", "app.slow",
  "app.slow_outlier", "app.slow_quiet", "app.slow_requests_logged", "app.slow_url",
  "app.socket_backlog_full", "app.worker_timeout", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499",
  "db.connections_exhausted", "db.not_answering", "disk.slow", "mem.cgroup_near_limit",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "memory of {host}"
summary = "{host}: tasks stall on memory {waiting_ratio:%} of the time{where_text}; {refaults_per_second:.0} refaults/s{past_text}, {swap_ins_per_second:.0} swap-ins/s, {read_bytes_per_second:bytes}/s read from disk"
why = "The working set exceeds memory, so each page that is loaded evicts one that is needed next. The disk is busy reading and appears guilty, but memory is the cause: of the host, or of one cgroup whose limit is below its working set."
look_at = "A cgroup at its limit: `select cgroup, memory_used_bytes, memory_limit_bytes, memory_limit_hits_total from cgroup_stat …`. The whole host: mem_stat.available_bytes, and what grew. What began at the same time: a backup or report that reads everything once also evicts pages, but does not stall on memory."
silent_when = "Memory stall at most 5 % in the last 30 s; or refaults below 500/s or less than 10× those of 5 and 60 minutes ago (without history, in the first 5 minutes: no cgroup that hits its limit), and less than 200 pages/s swapped both in and out. Pages swapped out once and left there are fine."
fix = "{advice} Check: some_avg10_ratio of memory in `pressure` below 0.05, refaults as before. Do not set vm.swappiness=0 or turn swap off meanwhile: then the kernel can only evict file pages, and kills sooner. A faster disk does not help."
source = "fault lab F46 (limit 40 MB, working set 96 MB: 1.5 million refaults, 6 GB read); kernel Documentation/accounting/psi.rst; mm/workingset.c"
[chart]
title = "Refaults since boot"
unit = ""
sql = """
select ts, refault_pages_total as refaults, swap_in_pages_total as swapped_in from mem_stat
where host = {host} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with waiting as (
  select host, cgroup, max(some_avg10_ratio) as waiting_ratio,
    row_number() over (partition by host order by case when cgroup = '/' then 1 else 0 end, max(some_avg10_ratio) desc) as place
  from pressure
  where resource = 'memory' and ts > $now - interval '30 seconds' and ts <= $now
  group by host, cgroup
  having max(some_avg10_ratio) > 0.05
),
slices as (
  select 0 as slice, host, ts, refault_pages_total, swap_in_pages_total, swap_out_pages_total, read_bytes_total from mem_stat
  where ts > $now - interval '30 seconds' and ts <= $now
  union all
  select 1 as slice, host, ts, refault_pages_total, swap_in_pages_total, swap_out_pages_total, read_bytes_total from mem_stat
  where ts > $now - interval '330 seconds' and ts <= $now - interval '300 seconds'
  union all
  select 2 as slice, host, ts, refault_pages_total, swap_in_pages_total, swap_out_pages_total, read_bytes_total from mem_stat
  where ts > $now - interval '3630 seconds' and ts <= $now - interval '3600 seconds'
),
rates as (
  select slice, host,
    (max(refault_pages_total) - min(refault_pages_total)) / (date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as refaults,
    (max(swap_in_pages_total) - min(swap_in_pages_total)) / (date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as swap_ins,
    (max(swap_out_pages_total) - min(swap_out_pages_total)) / (date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as swap_outs,
    (max(read_bytes_total) - min(read_bytes_total)) / (date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as read_bytes
  from slices
  group by slice, host
  having date_part('epoch', max(ts)) - date_part('epoch', min(ts)) >= 10
),
hosts as (
  select host,
    max(case when slice = 0 then refaults end) as refaults, max(case when slice > 0 then refaults end) as past_refaults,
    max(case when slice = 0 then swap_ins end) as swap_ins, max(case when slice = 0 then swap_outs end) as swap_outs,
    max(case when slice = 0 then read_bytes end) as read_bytes
  from rates
  group by host
),
limited as (
  select host, cgroup, max(memory_limit_bytes) as limit_bytes
  from cgroup_stat
  where ts > $now - interval '30 seconds' and ts <= $now and memory_limit_bytes > 0
  group by host, cgroup
  having max(memory_limit_hits_total) > min(memory_limit_hits_total)
),
limited_host as (
  select host, max(cgroup) as cgroup, count(*) as n from limited group by host
)
select w.host, w.waiting_ratio, w.cgroup as waiting_cgroup, l.cgroup as limited_cgroup,
  h.refaults as refaults_per_second, h.past_refaults as past_refaults_per_second,
  h.swap_ins as swap_ins_per_second, h.swap_outs as swap_outs_per_second, cast(h.read_bytes as bigint) as read_bytes_per_second,
  case when l.cgroup is not null then concat(' (cgroup ', l.cgroup, ' hits its limit)')
       when w.cgroup <> '/' then concat(' (in cgroup ', w.cgroup, ')') else '' end as where_text,
  case when l.cgroup is not null
    then concat('Cgroup ', l.cgroup, ' needs a higher limit (systemd `MemoryMax=`, Docker `--memory`, Kubernetes `limits.memory`) or less work; the host may have free memory.')
    else 'Shrink the working set: fewer workers, smaller caches (database buffers, JVM heap), batch jobs in a cgroup with `MemoryHigh=`; or add more memory.' end as advice,
  case when h.past_refaults is not null then concat(' (before: ', cast(round(h.past_refaults) as bigint), ')') else '' end as past_text,
  (h.refaults >= 500 and coalesce(h.refaults >= 10 * h.past_refaults, l.cgroup is not null)) or (h.swap_ins >= 200 and h.swap_outs >= 200) as opens
from waiting w
join hosts h on h.host = w.host
left join limited_host l on l.host = w.host
where w.place = 1 and (h.refaults >= 500 or (h.swap_ins >= 200 and h.swap_outs >= 200))
