/*---
id = "weir.repeat_manual"
title = "Same manual action repeated for the same fault"
tier = "weir"
class = "note"
for = "0s"
every = "60s"
clear = "0s"
key = ["rule", "action"]
needs = ["judgement"]
when = "select 1 from judgement where action is not null and ts > $now - interval '30 days' and ts <= $now limit 1"
subject = "{action}, against {rule}"
summary = "`{action}` was done {times} times in 30 days for {rule}, on {hosts} hosts, last by {last_user}"
why = "An action repeated the same way three times can be automated, and the first three did not fix the cause."
look_at = "`select ts, host, finding_id, user_name from judgement where rule = '{rule}' and action is not null order by ts`. Always the same host, the same hour, after a deploy?"
silent_when = "Fewer than three real findings of one rule in 30 days whose judgements name the same action; case and surrounding whitespace are ignored. Unrecorded actions are invisible."
fix = "Fix the cause that `weir rules show {rule}` names under `fix`. Until then automate it: a unit or timer with exactly this step, a limit (at most once in 15 minutes, three times a day) and a check that it helped. Check: this action is not recorded again for 30 days."
source = "field notes C: when the same alert has the same manual fix twice, automate the fix"
---*/
with newest as (
  select rule, host, user_name, lower(trim(action)) as action, verdict, ts,
    row_number() over (partition by finding_id order by ts desc) as place
  from judgement
  where ts > $now - interval '30 days' and ts <= $now
)
select rule, action, count(*) as times, count(distinct host) as hosts,
  last_value(user_name order by ts) as last_user
from newest
where place = 1 and verdict = 'real' and action is not null and action <> ''
group by rule, action
having count(*) >= 3
