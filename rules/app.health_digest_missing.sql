/*---
id = "app.health_digest_missing"
title = "Application no longer reports its health"
tier = "app"
class = "mail"
for = "20s"
every = "10s"
clear = "30s"
key = ["target"]
needs = ["check_result", "listener"]
when = "select 1 from check_result where kind = 'digest' and status = 'unknown' and ts > $now - interval '65 minutes' and ts <= $now limit 1"
subject = "{application}"
summary = "{application} on {host} no longer reports its health at {target}: {output}; {process_name} still listens there"
why = "weir read this application's health here before. An application that listens and does not answer is stuck, or a deploy removed its health page: either way its failed checks are no longer seen."
look_at = "`curl -sm 5 {target}` on {host}. No answer: the application is stuck or all of its workers are busy (app.requests_stopped, app.workers_exhausted). 404 or another page: what was deployed last."
silent_when = "No process listens at the port (a restart, or the application is gone), the digest was missing for less than 20 s, or weir never read one there. After a restart of the agent nothing is known of former digests."
fix = "Stuck: restart the application after you have saved its stack (`gdb -p`, `jstack`, `py-spy dump`). Removed on purpose: restart the agent on {host}, which then no longer expects it, or set `[collect] health_digests = false`. Check: check_result has rows of {target} that are not unknown."
source = "draft-inadarei-api-health-check-06"
---*/
with polls as (
  select host, target, service, status, output, ts, row_number() over (partition by host, target order by ts desc) as place
  from check_result
  where kind = 'digest' and check = 'health' and ts > $now - interval '2 hours' and ts <= $now
),
digests as (
  select host, target, max(service) as service, max(case when status <> 'unknown' then ts end) as good_ts,
    max(case when place = 1 then status end) as status, max(case when place = 1 then output end) as output
  from polls
  group by host, target
),
listening as (
  select host, server_port, max(process_name) as process_name
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now and netns = 'host'
  group by host, server_port
)
select d.host, d.target, d.output, coalesce(l.process_name, 'a process') as process_name,
  coalesce(d.service, d.target) as application,
  d.good_ts is not null as opens
from digests d
join listening l on l.host = d.host and cast(l.server_port as varchar) = regexp_match(d.target, ':([0-9]+)/')[1]
where d.status = 'unknown'
