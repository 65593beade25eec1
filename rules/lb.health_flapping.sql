/*---
id = "lb.health_flapping"
title = "A server goes in and out of its pool again and again"
tier = "proxy"
class = "mail"
for = "0s"
every = "4s"
clear = "5m"
key = ["server"]
explained_by = ["app.crash_loop"]
needs = ["log"]
when = "select 1 from log where program = 'haproxy' and body like '%erver % is DOWN%' and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "server {server} of {host}"
summary = "server {server} changed {transitions} times between up and down within 10 minutes on {host} ({flapping} of {servers} servers that changed at all did so at least 3 times); the last reason: {reason}"
why = "Each time it goes down its connections move to the others, each time it comes back it is cold: the visitors of both have slow answers. Either the server is at its limit, or the check is stricter than the work."
look_at = "The reason in the line. \"Layer7 timeout\" under load: the check waits in the same queue as the visitors. Several servers at once: what they share (a database) is part of the check. One only: its own log at these moments."
silent_when = "Fewer than 3 changes within 10 minutes: a restart or a deploy has two. Only HAProxy's own lines (`Server … is DOWN`, `is UP`) count; its log must go to a file or journal that weir follows."
fix = "Give the check hysteresis and patience: HAProxy `default-server inter 2s fall 3 rise 2` and `timeout check 2s`; let it ask a page that needs nothing from others (`option httpchk GET /health`), since a check of the database takes all servers out at once. Then mend the server that is at its limit. Check: no change for an hour. Do not take the check away."
source = "fault lab F21 (3 transitions, 14.5 % flap); field notes C; HAProxy documentation of `fall` and `rise`"
---*/
with changes as (
  select host, ts, regexp_match(body, 'erver ([^ ]+) is ')[1] as server,
    coalesce(regexp_match(body, 'reason: ([^,]+)')[1], 'not told') as reason,
    case when body like '% is DOWN%' then 0 else 1 end as is_up
  from log
  where program = 'haproxy' and ts > $now - interval '10 minutes' and ts <= $now
    and (body like '%erver % is DOWN%' or body like '%erver % is UP%')
),
servers as (
  select host, server, count(*) as transitions, max(case when is_up = 0 then reason end) as reason
  from changes
  where server is not null
  group by host, server
),
counted as (
  select *, count(*) over (partition by host) as servers,
    sum(case when transitions >= 3 then 1 else 0 end) over (partition by host) as flapping
  from servers
)
select host, server, transitions, servers, flapping, coalesce(reason, 'not told') as reason
from counted
where transitions >= 3
