/*---
id = "check.stale"
title = "Check result overdue"
tier = "weir"
class = "note"
for = "0s"
every = "1m"
clear = "1m"
key = ["kind", "target", "check"]
needs = ["check_result"]
subject = "{check} of {host}"
summary = "{check} on {host} has no result for {age_seconds:duration}; the next one was due {overdue_seconds:duration} ago (last: {status})"
why = "{why_text}"
look_at = "{look_text}"
silent_when = "The result did not expire (`expires_ts`): of a check that the agent runs after two intervals, its timeout and at least 30 s; of a passive one after the time that its sender states, else three times its usual interval if that is regular. Results that never expire, and health digests (app.health_digest_missing). A check that was removed from the configuration is a note for an hour, a passive one that no longer comes for 25 hours."
fix = "{fix_text}"
source = "Nagios Core: freshness of passive checks; sensu/sensu-go TTL of events"
[text.why_text]
passive = "Its sender stopped: a job that does not run, a host that is off. The last state says nothing about now."
local = "Either it was removed from the configuration, or the agent does not run it. The last state says nothing about now."
[text.look_text]
passive = "Does the sender run (its cron job or timer, its log), and does it reach the hub?"
local = "`weir config` on {host}: is {check} in `[[checks]]` or `[[probes]]`? If it is, the agent's log."
[text.fix_text]
passive = "Start the sender again; if the check is gone for good, nothing has to be done: it is forgotten after a day. Check: a row of {check} in check_result."
local = "If you removed it, nothing: it is forgotten within an hour. Otherwise restart the agent on {host}. Check: a row of {check} in check_result."
---*/
with recent as (
  select host, kind, target, check, status, ts, expires_ts
  from check_result
  where ts > $now - interval '25 hours' and ts <= $now and kind <> 'digest'
  union all
  select host, kind, target, check, status, ts, expires_ts
  from check_result
  where kind = 'passive' and ts > $now - interval '74 hours' and ts <= $now - interval '25 hours'
),
newest as (
  select host, kind, target, check, status, ts, expires_ts,
    row_number() over (partition by host, kind, target, check order by ts desc) as place
  from recent
)
select host, kind, target, check, status,
  date_part('epoch', $now) - date_part('epoch', ts) as age_seconds,
  date_part('epoch', $now) - date_part('epoch', expires_ts) as overdue_seconds,
  case when kind = 'passive' then 'passive' else 'local' end as why_text,
  case when kind = 'passive' then 'passive' else 'local' end as look_text,
  case when kind = 'passive' then 'passive' else 'local' end as fix_text,
  case when kind = 'passive' then 'mail' else 'note' end as class
from newest
where place = 1 and expires_ts <= $now
  and expires_ts > $now - case when kind = 'passive' then interval '25 hours' else interval '1 hour' end
