/*---
id = "mem.oom_kill"
title = "Process killed by the OOM killer"
tier = "host"
class = "mail"
for = "0s"
every = "5s"
clear = "10s"
key = []
needs = ["mem_stat", "kmsg", "cgroup_stat", "listener"]
when = """
select max(oom_kills_total) as n from mem_stat where ts > $now - interval '5 minutes' and ts <= $now group by host having max(oom_kills_total) > min(oom_kills_total)
union all select 1 as n from kmsg where kind = 'oom_kill' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now
union all select max(oom_kills_total) as n from cgroup_stat where ts > $now - interval '5 minutes' and ts <= $now group by host, cgroup having max(oom_kills_total) > min(oom_kills_total)"""
explains = [
  "app.closes_early", "app.crash_loop", "app.down", "app.errors", "app.errors_quiet",
  "app.requests_stopped", "app.workers_die", "db.not_answering", "db.server_log",
  "mem.cgroup_near_limit", "proxy.bad_gateway", "proxy.down", "proxy.masked_errors",
  "proxy.retry_amplification", "proxy.retry_storm", "proxy.upstream_errors", "slo.burning",
  "app.service_hangs",
]
equal = ["process_name", "cgroup"]
subject = "{victims} on {host}"
summary = "{host}: {kills} processes OOM-killed in 5 minutes: {victims}{where_text}"
why = "The machine or, if it has a limit, the cgroup ran out of memory, so the kernel chose a process and killed it. What it served is down until something restarts it; work in progress is lost."
look_at = "The kernel's message (evidence, column body): `constraint=CONSTRAINT_MEMCG` means that a cgroup's limit was hit and names it, `CONSTRAINT_NONE` that the whole machine was full. mem_stat.available_bytes and cgroup_stat.memory_used_bytes before it: a slow rise is a leak, a step is a job."
silent_when = "No process was killed in 5 minutes. It is a page only for a process with a listening socket in the last 15 minutes; a killed test or batch job is a mail, and explains no failing requests. What was killed before weir started does not count."
fix = "{advice} Check: oom_kills_total no longer rises. Do not set vm.overcommit_memory=2 or oom_score_adj=-1000 for everything: then another process is killed."
source = "fault lab F14; /proc/vmstat oom_kill; kernel mm/oom_kill.c"
[chart]
title = "Available memory"
unit = "B"
sql = """
select ts, available_bytes from mem_stat where host = {host} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with counted as (
  select host, max(oom_kills_total) - min(oom_kills_total) as kills
  from mem_stat
  where ts > $now - interval '5 minutes' and ts <= $now and oom_kills_total is not null
  group by host
),
grouped as (
  select host, cgroup, max(oom_kills_total) - min(oom_kills_total) as kills, max(memory_limit_bytes) as memory_limit_bytes
  from cgroup_stat
  where ts > $now - interval '5 minutes' and ts <= $now and oom_kills_total is not null
  group by host, cgroup
  having max(oom_kills_total) > min(oom_kills_total)
),
worst_group as (
  select host, sum(kills) as kills, max(cgroup) as cgroup, max(memory_limit_bytes) as memory_limit_bytes from grouped group by host
),
told as (
  select host, count(*) as messages, string_agg(distinct coalesce(subject, 'unknown process'), ', ') as victims, string_agg(distinct subject, ', ') as process_name,
    max(body) as body, max(case when body like 'Memory cgroup out of memory%' then 1 else 0 end) as is_group
  from kmsg
  where kind = 'oom_kill' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now
  group by host
),
served as (
  select k.host, count(*) as n
  from kmsg k
  join listener l on l.host = k.host
    and (l.process_name = k.subject or k.body like concat('%Kill% process % (', l.process_name, ')%'))
  where k.kind = 'oom_kill' and k.is_backlog is not true and k.ts > $now - interval '5 minutes' and k.ts <= $now
    and l.ts > $now - interval '15 minutes' and l.ts <= $now and length(l.process_name) > 0
  group by k.host
),
serving_groups as (
  select g.host, count(*) as n
  from grouped g
  join listener l on l.host = g.host and l.cgroup = g.cgroup and l.cgroup <> '/'
  where l.ts > $now - interval '15 minutes' and l.ts <= $now
  group by g.host
),
hosts as (
  select host from counted where kills > 0
  union select host from told
  union select host from worst_group
)
select h.host,
  greatest(coalesce(c.kills, 0), coalesce(t.messages, 0), coalesce(g.kills, 0)) as kills,
  coalesce(t.victims, 'unknown process (the kernel log could not be read)') as victims,
  t.body, g.cgroup, g.memory_limit_bytes, t.process_name,
  -- A program without listeners answers no request: its end explains no failing one.
  case when t.messages > 0 and s.n is null and o.n is null then 'mem.cgroup_near_limit' end as explains,
  case when g.cgroup is not null then concat(' (cgroup ', g.cgroup, ' at its limit)')
       when t.is_group = 1 then ' (a cgroup at its limit)' else '' end as where_text,
  case when s.n > 0 then 'page' else 'mail' end as class,
  case when g.cgroup is not null or t.is_group = 1
    then 'The machine has free memory, the cgroup does not: raise its limit (systemd `MemoryMax=`, Docker `--memory`, Kubernetes `limits.memory`) if the usage is legitimate, or find the leak.'
    else 'Find what grew (a leak, one job too many, too many workers) and limit it: fewer workers, `MemoryMax=` for batch jobs so that they are killed and not the service, or more memory.' end as advice
from hosts h
left join counted c on c.host = h.host
left join worst_group g on g.host = h.host
left join told t on t.host = h.host
left join served s on s.host = h.host
left join serving_groups o on o.host = h.host
