/*---
id = "log.heartbeat_missing"
title = "Missing heartbeat line of a host"
tier = "log"
class = "mail"
for = "60s"
every = "10s"
clear = "0s"
key = []
needs = ["log", "host_info"]
subject = "logs of {host}"
summary = "{host}: no heartbeat for more than 2 minutes (last one {last_text}); {missing} of {hosts} hosts miss theirs"
why = "Each agent writes its own line every 60 s through the same path as every other log line. If it does not arrive, the others do not arrive either, however quiet or busy the host is, and its logs are unknown from then on."
look_at = "Is the agent running (`systemctl status weir-agent`)? Does it reach the hub (collector_run, its own log)? Is the hub's disk full (`/api/status`, store.is_full)? Other samples of the host in cpu_stat show whether the host or only the log path is down."
silent_when = "A heartbeat arrived within 2 minutes (three are missing when this fires), or the host first reported itself (host_info) within 2 minutes, or not within 25 hours. A host with nothing to log is not missed: that is what the heartbeat is for. A host shut down for good is missed for up to 25 hours."
fix = "Start or repair the agent on {host}: `systemctl restart weir-agent`; it resumes at the positions stored by the hub, so nothing is lost unless the files have been rotated away. If several hosts are missing at once, check the hub and its disk first. Check: the heartbeat arrives within 60 s."
source = "field notes A (cron line every 30 min, alarm after an hour); fault lab F38 (an alarm on \"no lines\" was false on a quiet host)"
---*/
with known as (
  select host, max(ts) as seen_ts
  from host_info
  where ts > $now - interval '25 hours' and ts <= $now
  group by host
  having min(ts) <= $now - interval '2 minutes'
),
beats as (
  select host, max(ts) as last_ts
  from log
  where source = 'weir:heartbeat' and ts > $now - interval '5 minutes' and ts <= $now
  group by host
),
joined as (
  select k.host, b.last_ts, b.last_ts is null or b.last_ts <= $now - interval '2 minutes' as is_missing
  from known k left join beats b on b.host = k.host
),
fleet as (
  select count(*) as hosts, count(*) filter (where is_missing) as missing from joined
)
select j.host, f.hosts, f.missing,
  coalesce(cast(date_trunc('second', j.last_ts) as varchar), 'more than 5 minutes ago') as last_text,
  case when f.hosts >= 10 and f.missing * 10 > f.hosts then 'page' else 'mail' end as class
from joined j cross join fleet f
where j.is_missing
