/*---
id = "lb.health_flapping"
title = "Flapping backend server"
tier = "proxy"
class = "mail"
for = "0s"
every = "4s"
clear = "5m"
key = ["server"]
needs = ["log"]
when = "select 1 from log where program = 'haproxy' and message_template like '%erver % is DOWN%' and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = ["lb.canary_oscillation"]
subject = "server {server} of {host}"
summary = "server {server} is flapping on {host}: {transitions} transitions between up and down in 10 minutes ({flapping} of {servers} changed servers flap, at least 3 each); last reason: {reason}"
why = "Each time it goes down its connections move to the others, each time it comes back it is cold: clients of both get slow responses. Either the server is at its limit, or the health check is stricter than the real work."
look_at = "The reason in the line. \"Layer7 timeout\" under load: the check waits in the same queue as the clients. Several servers at once: the check includes something they share (a database). One only: its own log at these moments."
silent_when = "Fewer than 3 transitions within 10 minutes: a restart or a deploy has two. Only HAProxy's own lines (`Server … is DOWN`, `is UP`) count; its log must go to a file or journal that weir follows."
fix = "Give the check hysteresis: HAProxy `default-server inter 2s fall 3 rise 2` and `timeout check 2s`; let it request a page without dependencies (`option httpchk GET /health`), since a check of the database takes all servers out at once. Then fix the server that is at its limit. Check: no transition for an hour. Do not remove the check."
source = "fault lab F21 (3 transitions, 14.5 % flap); field notes C; HAProxy documentation of `fall` and `rise`"
---*/
with changes as (
  select host, ts, regexp_match(message_template, 'erver ([^ ]+) is ')[1] as server,
    coalesce(regexp_match(message_template, 'reason: ([^,]+)')[1], 'unknown') as reason,
    case when message_template like '% is DOWN%' then 0 else 1 end as is_up
  from log
  where program = 'haproxy' and ts > $now - interval '10 minutes' and ts <= $now
    and (message_template like '%erver % is DOWN%' or message_template like '%erver % is UP%')
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
select host, server, transitions, servers, flapping, coalesce(reason, 'unknown') as reason
from counted
where transitions >= 3
