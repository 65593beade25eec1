/*---
id = "weir.agent_silent"
title = "Nothing at all comes from a host's agent any more"
tier = "log"
class = "mail"
for = "30s"
every = "5s"
clear = "0s"
key = []
explained_by = ["clock.hub_skew"]
needs = ["collector_run", "host_info"]
subject = "agent of {host}"
summary = "nothing has come from {host} for more than half a minute (last: {last_text}); {missing} of {hosts} hosts are silent"
why = "weir is blind there: no rule can say anything about this host, and no finding of it means nothing. A host that died looks the same as an agent that was stopped; from here only silence is seen."
look_at = "Does the host answer (ping, ssh)? Is the agent running there (`systemctl status weir-agent`) and what does it say? If several hosts are silent at once, look at the network between and at the hub."
silent_when = "The agent's report on itself (collector_run, every 10 s) came within the last 35 s, so that three of them are missing, or the host was first known less than a minute ago, or not within 25 hours. A host that was shut down for good is silent for up to 25 hours."
fix = "Start or mend the host or its agent: `systemctl restart weir-agent` on {host}. Its logs are read on from where the hub knows them; samples of the kernel from the time in between are gone. Check: the finding goes within 20 s."
source = "field notes A (a host that nobody missed); Prometheus' `up` and its `absent()`"
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
