/*---
id = "weir.threshold_off"
title = "Threshold does not match this fleet's history"
tier = "weir"
class = "mail"
for = "0s"
every = "10s"
clear = "0s"
key = ["rule"]
needs = ["threshold_proposal"]
when = "select 1 from threshold_proposal where proposed is not null and ts > $now - interval '8 days' and ts <= $now limit 1"
subject = "threshold of {rule}"
summary = "{rule}: {value} {unit} would have fired {events} times in {known_days:.1} days ({per_week:.1} a week, target {asked_per_week}); {proposed} {unit} would have fired {events_proposed} times"
why = "{why_text}"
look_at = "`weir thresholds {rule}` lists each event that would no longer fire, or would newly. Were some of them real? Judge those findings (`weir findings judge ID real`) and run it again: confirmed findings are excluded from mining."
silent_when = "Less than a day of history; the current value meets the target and is not more than 3× as far as needed. Mining runs once a week. A proposal changes nothing without consent."
fix = "`weir thresholds {rule} --accept --rules DIR` writes a copy of the rule with `value = {proposed}` into your rules directory; restart weir with it. Check: this finding resolves after the restart. Do not accept a higher value while those days contain an unjudged incident."
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
  case when is_noisy then 'The value is within the normal range here, so the rule fires without a fault and trains people to ignore it.'
    else 'The value is far from anything that happens here, so the rule would fire late. It is the rule author''s opinion.' end as why_text,
  case when is_noisy then 'mail' else 'note' end as class
from judged
where is_noisy or is_far
