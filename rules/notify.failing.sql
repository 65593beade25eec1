/*---
id = "notify.failing"
title = "A receiver does not accept messages"
tier = "weir"
class = "page"
for = "0s"
every = "10s"
clear = "30s"
key = ["receiver"]
needs = ["notice"]
when = "select 1 from notice where state in ('failed', 'queued', 'uncertain') and (attempt > 0 or state = 'failed') and answer is not null and kind <> 'test' and ts > $now - interval '25 hours' and ts <= $now limit 1"
subject = "receiver {receiver}"
summary = "{receiver} does not accept {what}: {attempts_text} in {failing_seconds:duration}; {answer}{people_text}"
why = "What is sent there reaches no person. Pages fail over to the person's next contact, if there is one; mails wait until they expire."
look_at = "`select ts, kind, person, state, attempt, answer from notice where receiver = '{receiver}' order by ts desc limit 20`: since when, for all people or for one address. `weir notify check` probes the login without a message."
silent_when = "A message to the same receiver and person was accepted after the last refusal; attempts failed for less than two minutes or fewer than three times and none was given up; a receiver that only retries was not tried for 30 minutes; or one that refused a person's message an hour ago accepted those for others since. Tests (`weir notify test`) that fail do not count; an accepted one to the same person ends this finding. It is a page if pages are concerned, else a mail. Its messages avoid the receiver itself."
fix = "Repair what the answer names: a revoked token or webhook, a deleted channel or mailbox, a firewall. Check: `weir notify test --receiver {receiver}` is accepted, and for the people concerned `weir notify test --person NAME`."
source = "own: a revoked token is noticed at the next page"
[text.people_text]
none = ""
some = "; concerns {people}"
---*/
with changes as (
  select receiver, coalesce(person, '') as person, kind, state, attempt, answer, ts,
    state = 'sent' and coalesce(answer, '') not like 'not sent%' as is_accepted,
    kind <> 'test' and answer is not null and (state = 'failed' or (state in ('queued', 'uncertain') and attempt > 0)) as is_refused
  from notice
  where ts > $now - interval '25 hours' and ts <= $now
),
accepted as (
  select receiver, person, max(ts) as accepted_ts from changes where is_accepted group by receiver, person
),
receivers as (
  select receiver, max(accepted_ts) as accepted_ts from accepted group by receiver
),
refused as (
  select c.receiver, c.person, c.kind, c.state, c.answer, c.ts,
    row_number() over (partition by c.receiver, c.person order by c.ts desc, c.attempt desc) as place
  from changes c
  left join accepted a on a.receiver = c.receiver and a.person = c.person
  where c.is_refused and (a.accepted_ts is null or c.ts > a.accepted_ts)
),
people as (
  select receiver, person, count(*) as refusals, count(*) filter (where state = 'failed') as dropped,
    count(*) filter (where kind = 'page') as pages, min(ts) as first_ts, max(ts) as last_ts,
    max(case when place = 1 then answer end) as answer
  from refused
  group by receiver, person
),
failing as (
  select p.*, row_number() over (partition by p.receiver order by p.last_ts desc, p.person) as place
  from people p
  left join receivers r on r.receiver = p.receiver
  where (p.dropped > 0 or (p.refusals >= 3 and p.first_ts <= $now - interval '2 minutes' and p.last_ts > $now - interval '30 minutes'))
    and (r.accepted_ts is null or r.accepted_ts < p.last_ts or p.last_ts > $now - interval '1 hour')
)
select receiver, sum(refusals) as refusals,
  concat(sum(refusals), case when sum(refusals) = 1 then ' failed attempt' else ' failed attempts' end) as attempts_text,
  case when sum(pages) > 0 then 'pages' else 'mails' end as what,
  date_part('epoch', $now) - date_part('epoch', min(first_ts)) as failing_seconds,
  coalesce(substr(max(case when place = 1 then answer end), 1, 80), 'no answer') as answer,
  coalesce(string_agg(distinct case when person <> '' then person end, ', '), '') as people,
  case when count(*) filter (where person <> '') > 0 then 'some' else 'none' end as people_text,
  case when sum(pages) > 0 then 'page' else 'mail' end as class
from failing
group by receiver
