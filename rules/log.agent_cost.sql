/*---
id = "log.agent_cost"
title = "weir uses more than 2 % of a host's CPU"
tier = "weir"
class = "note"
for = "60s"
every = "60s"
clear = "5m"
key = []
needs = ["collector_run", "host_info"]
subject = "weir on {host}"
summary = "weir's collectors and parsers used {share:%} of {host}'s CPU time in 5 minutes: {cpu_seconds:.1} s on {cpu_count} CPUs, most of it {worst} with {worst_seconds:.1} s"
why = "Monitoring must not slow the traffic. Reading a socket table with hundreds of thousands of connections, or parsing very many lines, takes CPU time that the traffic needs."
look_at = "`select collector, sum(cpu_seconds), sum(runs), sum(rows) from collector_run where host = … group by 1 order by 2 desc`. parse or tail: which log writes that many lines (`select source, count(*) from log …`)? sock_stat or listener: how many sockets there are."
silent_when = "At most 2 % of total CPU time over 5 minutes, or less than 4 minutes of reports, so that the initial read of long logs is silent unless it continues. Only measured work counts: a hub's store and queries do not."
fix = "parse, tail: log less (`access_log … if=$loggable` in nginx for health checks and static files; debug level off), or exclude a log (`weir config` lists the followed ones). Collectors: run the agent in its own cgroup with lower priority: `systemctl edit weir-agent` with `[Service]`, `CPUWeight=20`, `Nice=10`, `IOWeight=20`. Check: share below 2 %. Not `CPUQuota=`: a throttled agent takes late samples."
source = "field notes A (a shipper that took two cores); diagnosis of the sampling cost: 1 Hz of all host files is below 0.1 % of a core"
---*/
with parts as (
  select host, collector, sum(cpu_seconds) as cpu_seconds, min(ts) as first_ts, max(ts) as last_ts
  from collector_run
  where ts > $now - interval '5 minutes' and ts <= $now and cpu_seconds is not null
    and collector <> 'store'
  group by host, collector
),
ranked as (
  select *, row_number() over (partition by host order by cpu_seconds desc, collector) as place from parts
),
sums as (
  select host, sum(cpu_seconds) as cpu_seconds,
    max(case when place = 1 then collector end) as worst, max(case when place = 1 then cpu_seconds end) as worst_seconds,
    date_part('epoch', max(last_ts)) - date_part('epoch', min(first_ts)) as span_seconds
  from ranked
  group by host
),
machine as (
  select host, max(cpu_count) as cpu_count from host_info where ts > $now - interval '2 hours' and ts <= $now group by host
)
select s.host, s.cpu_seconds, s.worst, s.worst_seconds, m.cpu_count,
  s.cpu_seconds / (s.span_seconds + 10) / m.cpu_count as share
from sums s
join machine m on m.host = s.host and m.cpu_count > 0
where s.span_seconds >= 240 and s.cpu_seconds > 0.02 * (s.span_seconds + 10) * m.cpu_count
