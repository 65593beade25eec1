/*---
id = "weir.threshold_off"
title = "A rule's threshold does not fit this fleet's own past"
tier = "weir"
class = "mail"
for = "0s"
every = "10s"
clear = "0s"
key = ["rule"]
needs = ["threshold_proposal"]
when = "select 1 from threshold_proposal where proposed is not null and ts > $now - interval '8 days' and ts <= $now limit 1"
subject = "threshold of {rule}"
summary = "{rule}: {value} {unit} was passed {events} times in the {known_days:.1} days that are known ({per_week:.1} a week, at most {asked_per_week} is asked); {proposed} {unit} would have been passed {events_proposed} times"
why = "{why_text}"
look_at = "`weir thresholds {rule}` names each time that would no longer be seen, or would be. Were some of them real? Judge those findings (`weir findings judge ID real`) and ask again: what is confirmed teaches nothing."
silent_when = "Less than a day of history; the value in force keeps to what is asked and is not more than three times as far as needed. It is mined once a week. A proposal changes nothing by itself."
fix = "`weir thresholds {rule} --accept --rules DIR` writes a copy of the rule with `value = {proposed}` into your directory of rules; start weir again with it. Check: this finding goes after the start. Do not accept a higher value while an incident that nobody judged lies in those days."
source = "field notes C: do not guess thresholds, mine logs and metrics for what is normal"
---*/
with newest as (
  select *, row_number() over (partition by rule order by ts desc) as place
  from threshold_proposal
  where ts > $now - interval '8 days' and ts <= $now
),
judged as (
  select host, rule, class as rule_class, value, proposed, unit, asked_per_week, subjects, events, events_proposed,
    known_seconds / 86400 as known_days,
    events * 604800 / greatest(known_seconds, 86400) as per_week,
    events > greatest(asked_per_week * known_seconds / 604800, 1) as is_noisy,
    known_seconds >= 7 * 86400 and greatest(value, proposed) > 3 * least(value, proposed) as is_far
  from newest
  where place = 1 and proposed is not null
)
select *,
  case when is_noisy then 'The value is within what is normal here, so the rule speaks of nothing, and who gets such findings learns to ignore them.'
    else 'The value is far from anything that happens here, so the rule would speak late. It is an opinion of whoever wrote the rule.' end as why_text,
  case when is_noisy then 'mail' else 'note' end as class
from judged
where is_noisy or is_far
