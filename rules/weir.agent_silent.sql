/*---
id = "weir.agent_silent"
title = "Agent silent: no data from a host"
tier = "log"
class = "mail"
for = "30s"
every = "5s"
clear = "0s"
key = []
needs = ["collector_run", "host_info"]
explains = [
  "app.requests_stopped", "app.throughput_drop", "check.stale", "log.heartbeat_missing",
  "log.rotated_unfinished", "log.ship_lag", "traffic.unusual",
]
subject = "agent of {host}"
summary = "no data from {host} for more than half a minute (last: {last_text}); {missing} of {hosts} hosts are silent"
why = "weir is blind there: no rule can evaluate this host, and the absence of findings means nothing. A dead host and a stopped agent look the same from here."
look_at = "Does the host respond (ping, ssh)? Is the agent running there (`systemctl status weir-agent`), and what does it log? If several hosts are silent at once, check the network between and the hub."
silent_when = "The agent's own report (collector_run, every 10 s) arrived within the last 35 s, so three must be missing, or the host first appeared less than a minute ago, or not within 25 hours. A host shut down for good is silent for up to 25 hours."
fix = "Start or repair the host or its agent: `systemctl restart weir-agent` on {host}. It resumes its logs at the hub's positions; kernel samples of the time in between are lost. Check: the finding resolves within 20 s."
source = "field notes A (a host down unnoticed); Prometheus' `up` and its `absent()`"
---*/
with known as (
  select host
  from host_info
  where ts > $now - interval '25 hours' and ts <= $now
  group by host
  having min(ts) <= $now - interval '60 seconds'
),
heard as (
  select host, max(ts) as last_ts
  from collector_run
  where ts > $now - interval '5 minutes' and ts <= $now
  group by host
),
joined as (
  select k.host, h.last_ts, h.last_ts is null or h.last_ts <= $now - interval '35 seconds' as is_missing
  from known k left join heard h on h.host = k.host
),
fleet as (
  select count(*) as hosts, count(*) filter (where is_missing) as missing from joined
)
select j.host, f.hosts, f.missing,
  coalesce(cast(date_trunc('second', j.last_ts) as varchar), 'more than 5 minutes ago') as last_text,
  case when f.hosts >= 10 and f.missing * 10 > f.hosts then 'page' else 'mail' end as class
from joined j cross join fleet f
where j.is_missing
