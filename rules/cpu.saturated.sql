/*---
id = "cpu.saturated"
title = "CPU saturated, latency up"
tier = "host"
class = "mail"
for = "5s"
every = "5s"
clear = "30s"
key = []
needs = ["pressure", "cpu_stat", "request", "listener"]
when = "select 1 from pressure where resource = 'cpu' and some_avg10_ratio > 0.3 and ts > $now - interval '20 seconds' and ts <= $now limit 1"
subject = "CPUs of {host}"
summary = "{host}: tasks wait for a CPU {waiting_ratio:%} of the time, {running:.1} runnable threads on {cpu_count} CPUs (before: {past_waiting_ratio:%}, {past_running:.1}); {suffers}"
why = "More threads want to run than there are CPUs, so work waits its turn, and at the same time clients wait longer or connections queue. A busy CPU alone is no fault."
look_at = "Which process: `top -H`, or cpu_seconds_total by cgroup in cgroup_stat. Steal and throttling (cpu.steal, cgroup_stat) look the same from inside. What started when this finding did?"
silent_when = "Traffic does not suffer: the proxies' p95 is below 2× its value of a few minutes before (or below 50 ms), and no accept queue is more than half full. Without history (its first 4 minutes) weir compares with its 3rd to 15th second, and requires slower requests, both figures well above (or at least 90 % waiting and 2× the threads), and half a minute of rows. A host that is always so busy and as fast as always is ignored."
fix = "Find the heaviest process and move, limit or speed it up: batch jobs `nice -n 19` or a cgroup with `CPUWeight=10`; more CPUs if it is the traffic itself; fewer workers than 2× the CPUs. Check: waiting_ratio and p95 fall together."
source = "fault lab F13 (p50 2.6 to 20 ms while PSI was 97 % before already); kernel Documentation/accounting/psi.rst"
[chart]
title = "Share of time in which a task waits for a CPU"
unit = "ratio"
sql = """
select ts, some_avg10_ratio as waiting from pressure
where resource = 'cpu' and cgroup = '/' and host = {host} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with began as (
  -- A host watched for less than 4 minutes is compared with its own 3rd to 15th second.
  select host, min(ts) as ts, min(ts) > $now - interval '4 minutes' as is_young
  from pressure
  where resource = 'cpu' and cgroup = '/' and ts > $now - interval '15 minutes' and ts <= $now
  group by host
),
waiting as (
  select p.host, max(b.ts) as began_ts, bool_and(b.is_young) as is_young,
    -- Exactly the last 6 s: means of 10 s lag.
    (max(some_seconds_total) filter (where p.ts > $now - interval '6 seconds') - min(some_seconds_total) filter (where p.ts > $now - interval '6 seconds'))
      / nullif(date_part('epoch', max(p.ts)) - date_part('epoch', min(p.ts) filter (where p.ts > $now - interval '6 seconds')), 0) as waiting_ratio,
    avg(some_avg10_ratio) filter (where case when b.is_young then p.ts between b.ts + interval '2 seconds' and b.ts + interval '15 seconds'
      else p.ts <= $now - interval '3 minutes' end) as past_waiting_ratio
  from pressure p
  join began b on b.host = p.host
  where resource = 'cpu' and cgroup = '/' and p.ts > $now - interval '15 minutes' and p.ts <= $now
  group by p.host
),
running as (
  select c.host, max(cpu_count) as cpu_count,
    avg(cast(processes_running as double)) filter (where c.ts > $now - interval '20 seconds') as running,
    avg(cast(processes_running as double)) filter (where case when b.is_young then c.ts between b.ts + interval '2 seconds' and b.ts + interval '15 seconds'
      else c.ts <= $now - interval '3 minutes' end) as past_running
  from cpu_stat c
  join began b on b.host = c.host
  where cpu = 'all' and c.ts > $now - interval '15 minutes' and c.ts <= $now
  group by c.host
),
latency as (
  select host,
    percentile(duration_seconds, 0.95) as p95,
    count(*) as n
  from request
  where tier in ('proxy', 'edge') and duration_seconds is not null and ts > $now - interval '20 seconds' and ts <= $now
  group by host
),
past_rows as (
  select host, duration_seconds from request
  where tier in ('proxy', 'edge') and ts > $now - interval '200 seconds' and ts <= $now - interval '180 seconds'
  union all
  select host, duration_seconds from request
  where tier in ('proxy', 'edge') and ts > $now - interval '620 seconds' and ts <= $now - interval '600 seconds'
  union all
  select r.host, r.duration_seconds from request r
  join began b on b.host = r.host and b.is_young and r.ts between b.ts + interval '2 seconds' and b.ts + interval '15 seconds'
  where r.tier in ('proxy', 'edge') and r.ts > $now - interval '4 minutes' and r.ts <= $now
),
past_latency as (
  select host, percentile(duration_seconds, 0.95) as p95, count(*) as n
  from past_rows where duration_seconds is not null
  group by host
),
queues as (
  select host, count(distinct ts) as full_seconds
  from listener
  where ts > $now - interval '20 seconds' and ts <= $now
    and accept_queue_length >= 5 and accept_queue_length * 2 > accept_queue_limit
  group by host
),
judged as (
  select w.host, w.began_ts, w.is_young, w.waiting_ratio, w.past_waiting_ratio, r.running, r.past_running, r.cpu_count,
    l.p95, p.p95 as past_p95, coalesce(q.full_seconds, 0) as full_seconds,
    coalesce(l.n >= 20 and p.n >= 20 and l.p95 >= 2 * p.p95 and l.p95 >= 0.05, false) as is_slower
  from waiting w
  join running r on r.host = w.host
  left join latency l on l.host = w.host
  left join past_latency p on p.host = w.host
  left join queues q on q.host = w.host
)
select host, waiting_ratio, past_waiting_ratio, running, past_running, cpu_count, p95, past_p95, full_seconds,
  case when is_slower then concat('request p95 of the proxies rose from ', cast(round(past_p95 * 1000) as bigint), ' to ', cast(round(p95 * 1000) as bigint), ' ms')
       else concat('an accept queue was more than half full in ', full_seconds, ' of 20 s') end as suffers,
  case when is_slower and waiting_ratio > 0.8 and p95 >= 1.0 then 'page' else 'mail' end as class,
  case when is_young then is_slower and waiting_ratio >= least(past_waiting_ratio + 0.3, 0.9) and running >= 2 * past_running
    else waiting_ratio >= past_waiting_ratio + 0.15 or running >= 2 * past_running end as opens
from judged
where waiting_ratio > 0.4 and running > cpu_count
  and past_waiting_ratio is not null and past_running is not null
  and (not is_young or began_ts <= $now - interval '25 seconds')
  and (is_slower or full_seconds >= 5)
