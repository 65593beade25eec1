/*---
id = "app.check_failing"
title = "Application reports a failed check"
tier = "app"
class = "mail"
for = "10s"
every = "5s"
clear = "30s"
key = ["target", "check"]
needs = ["check_result"]
when = "select 1 from check_result where kind = 'digest' and status = 'critical' and ts > $now - interval '2 minutes' and ts <= $now limit 1"
explains = ["slo.burning"]
subject = "{check} of {application}"
summary = "{application} on {host} fails its check {check} ({scope_text}) for {failing_seconds:duration}{output_text}{value_text}"
why = "{why_text}"
look_at = "`curl -s {target}` on {host}: what the application reports, and which other checks fail. `select ts, status, output from check_result where host = '{host}' and target = '{target}' and check = '{check}' order by ts desc limit 20` shows when it began."
silent_when = "The digest is not in a state of failure for 10 s, or was not read for 2 minutes (app.health_digest_missing). A page only for checks with the scope `self` that fail for 30 s; those with the scope `dependency`, and those that state no scope, are mails: whether such a failure is the application's own shows in its siblings. 30 s is an opinion."
fix = "{fix_text}"
source = "draft-inadarei-api-health-check-06; Spring Boot, MicroProfile, Dropwizard, Terminus health responses"
[text.scope_text]
self = "its own"
dependency = "a dependency"
unstated = "no scope stated"
[text.value_text]
none = ""
plain = "; measured {observed_value}{unit_name}"
bounded = "; measured {observed_value}{unit_name} against {threshold}"
[text.why_text]
self = "The application itself says that it cannot do its work. A balancer that reads this digest takes it out; one that only connects still sends it requests."
dependency = "Something that the application needs has failed. Its siblings probably report the same, so taking members out of the balancer would not help."
unstated = "The application says that it is not healthy. It does not say whether the failed part is its own: compare its siblings."
[text.fix_text]
self = "Repair what the check names; restart the application if it does not recover by itself. Check: its row in check_result is ok again."
dependency = "Repair {check}, not the application: restarting it changes nothing. Check: its row in check_result is ok again."
unstated = "Repair what the check names, and let the application state `\"scope\": \"self\"` or `\"dependency\"` beside the status (docs/checks.md), so that its own failures page. Check: its row in check_result is ok again."
---*/
with results as (
  select host, target, check, service, status, scope, output, observed_value, observed_unit, threshold, ts,
    row_number() over (partition by host, target, check order by ts desc) as place,
    max(case when status <> 'critical' then ts end) over (partition by host, target, check) as good_ts
  from check_result
  where kind = 'digest' and ts > $now - interval '10 minutes' and ts <= $now
),
failing as (
  select host, target, check, min(ts) as since_ts
  from results
  where status = 'critical' and (good_ts is null or ts > good_ts)
  group by host, target, check
),
-- A summary is a finding of its own only if no check of the digest explains it.
named as (
  select host, target, count(*) as checks
  from results
  where place = 1 and status = 'critical' and check <> 'health' and ts > $now - interval '2 minutes'
  group by host, target
)
select r.host, r.target, r.check, r.scope, r.output, r.observed_value, r.observed_unit, r.threshold,
  coalesce(r.service, r.target) as application,
  date_part('epoch', $now) - date_part('epoch', f.since_ts) as failing_seconds,
  case when r.output is null then '' else concat(': ', substr(r.output, 1, 80)) end as output_text,
  case when r.observed_unit is null then '' else concat(' ', r.observed_unit) end as unit_name,
  case when r.observed_value is null then 'none' when r.threshold is null then 'plain' else 'bounded' end as value_text,
  case r.scope when 'self' then 'self' when 'dependency' then 'dependency' else 'unstated' end as scope_text,
  case r.scope when 'self' then 'self' when 'dependency' then 'dependency' else 'unstated' end as why_text,
  case r.scope when 'self' then 'self' when 'dependency' then 'dependency' else 'unstated' end as fix_text,
  case when r.scope = 'self' and f.since_ts <= $now - interval '30 seconds' then 'page' else 'mail' end as class
from results r
join failing f on f.host = r.host and f.target = r.target and f.check = r.check
left join named n on n.host = r.host and n.target = r.target
where r.place = 1 and r.status = 'critical' and r.ts > $now - interval '2 minutes'
  and (r.check <> 'health' or coalesce(n.checks, 0) = 0)
