/*---
id = "log.agent_cost"
title = "weir itself takes more than 2 % of a host's processor time"
tier = "weir"
class = "note"
for = "60s"
every = "60s"
clear = "5m"
key = []
needs = ["collector_run", "host_info"]
subject = "weir on {host}"
summary = "weir's collectors and parsers took {share:%} of the processor time of {host} in the last 5 minutes ({cpu_seconds:.1} s on {cpu_count} processors), most of it {worst} with {worst_seconds:.1} s"
why = "What watches must not be what slows. Reading a socket table with hundreds of thousands of connections, or parsing very many lines, costs processor time that the traffic needs."
look_at = "`select collector, sum(cpu_seconds), sum(runs), sum(rows) from collector_run where host = … group by 1 order by 2 desc`. parse or tail: which log writes so many lines (`select source, count(*) from log …`)? sock_stat or listener: how many sockets there are."
silent_when = "At most 2 % of all processors' time over 5 minutes, or fewer than 4 minutes of reports, so that the first reading of long logs is silent unless it goes on. Only what is measured counts: the store and the queries of a hub do not."
fix = "parse, tail: log less (`access_log … if=$loggable` in nginx for health checks and static files; debug level off), or leave a log out (`weir config` lists what is followed). Collectors: run the agent in a group of its own, so that traffic comes first: `systemctl edit weir-agent` with `[Service]`, `CPUWeight=20`, `Nice=10`, `IOWeight=20`. Check: share below 2 %. Not `CPUQuota=`: an agent that is stopped for parts of a second takes late samples."
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
