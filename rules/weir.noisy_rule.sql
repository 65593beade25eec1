/*---
id = "weir.noisy_rule"
title = "Most findings of a rule were judged false"
tier = "weir"
class = "note"
for = "0s"
every = "10s"
clear = "0s"
key = ["rule"]
needs = ["judgement"]
when = "select 1 from judgement where verdict <> 'real' and ts > $now - interval '90 days' and ts <= $now limit 1"
subject = "rule {rule}"
summary = "{rule}: {real} of the last {judged} judged findings were real ({wrong} wrong, {not_actionable} not actionable){demoted_text}"
why = "An alert that is mostly false trains people to ignore it, and the real one is missed too. So a rule pages only while its findings are judged real: below one half it mails."
look_at = "`weir rules show {rule}`: which false alarms does `silent_when` list? `select ts, finding_id, verdict, user_name, action from judgement where rule = '{rule}' order by ts desc`: what do the wrong ones have in common?"
silent_when = "Fewer than 5 findings of the rule were judged in the last 90 days, or at least half of the last 10 were real. Only the newest judgement of a finding counts; unjudged findings do not count."
fix = "`weir thresholds {rule}` if its threshold can be mined. Otherwise copy the rule into your rules directory (`weir rules show {rule}`) and add the condition that excludes the false ones, with a silent case in its `.test`; or give it `class = \"note\"`. Check: judge the next findings; this one resolves when half of the last 10 are real."
source = "field notes C (alarm, manual action and real fault as three sets that should be one)"
---*/
with newest as (
  select rule, verdict, class, ts, row_number() over (partition by finding_id order by ts desc) as place
  from judgement
  where ts > $now - interval '90 days' and ts <= $now
),
recent as (
  select *, row_number() over (partition by rule order by ts desc) as age from newest where place = 1
),
counted as (
  select rule, count(*) as judged, count(*) filter (where verdict = 'real') as real,
    count(*) filter (where verdict = 'wrong') as wrong,
    count(*) filter (where verdict = 'not_actionable') as not_actionable,
    coalesce(bool_or(class = 'page'), false) as is_paging
  from recent where age <= 10
  group by rule
)
select *, case when is_paging then '; until then it mails instead of paging' else '' end as demoted_text,
  case when is_paging then 'mail' else 'note' end as class
from counted
where judged >= 5 and 2 * real < judged
