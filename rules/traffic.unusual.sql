/*---
id = "traffic.unusual"
title = "Requests are far from what is normal at this time of the week"
tier = "edge"
class = "mail"
for = "0s"
every = "30s"
clear = "0s"
key = ["subject"]
needs = ["measure", "request"]
when = "select 1 from measure where rule = 'traffic.unusual' and abs(nearness_ratio) >= 0.8 and ts > $now - interval '11 minutes' and ts <= $now limit 1"
explained_by = ["app.down", "app.throughput_drop", "lb.too_few_healthy", "weir.agent_silent", "log.ship_lag"]
subject = "{subject}"
summary = "{requests} requests in five minutes at {subject} on {host}; {expected:.0} are normal at this time ({low:.0} to {high:.0}), so there is {what}"
why = "The number is compared with the same half hour of the weeks before, at the level of the last seven days, so neither night nor growth explains it. Less: visitors do not get here, or cannot go on. More: a campaign, a crawler, retries of a client that gets no answer."
look_at = "The same sites' other logs: one source or all? `select http_response_status_code, count(*) from request where ts > now() - interval '10 minutes' group by 1`, and the same by user agent and by path. For less: from outside, `dig NAME` and `curl -v`."
silent_when = "Less than a day of history of this log; numbers in a log's name count as equal, so a log with a date in its name is one. The bounds are mined every night so that their replay over the last four weeks gives at most one event a week of all logs together (`weir thresholds traffic.unusual` shows them). Holidays look like a fault. With less than three weeks of history weekends do too. An incident that nobody judged as real (`weir findings judge`) is learned as normal."
fix = "Less: follow the way of a visitor from outside, name server, balancer, proxy, and undo the last change where the number falls. More: `limit_req` for the client that asks too often, or more members if they are visitors. Check: the next five minutes are between {low:.0} and {high:.0}."
source = "field notes C (mine logs for what is normal); the week in half hours, level tracking, replay against a budget of false findings"
[chart]
title = "Requests in five minutes, and what was normal"
unit = ""
sql = """
select ts, value as requests, expected, low, high from measure
where rule = 'traffic.unusual' and host = {host} and subject = {subject} and ts > $now - interval '1 day' and ts <= $now order by ts"""
[threshold]
side = "both"
scale = "log"
absent_is_zero = true
series = """
select ts, host, concat(tier, ' ', regexp_replace(source, '[0-9]+', '#', 'g')) as subject, cast(sum(requests) as double) as value
from (
  select date_bin(interval '5 minutes', ts) as ts, host, tier, source, count(*) as requests
  from request
  where ts >= $from and ts < $to
  group by 1, 2, 3, 4
) sources
group by 1, 2, 3"""
---*/
with newest as (
  select host, subject, value, expected, low, high, nearness_ratio,
    row_number() over (partition by host, subject order by ts desc) as place
  from measure
  where rule = 'traffic.unusual' and ts > $now - interval '11 minutes' and ts <= $now
)
select host, subject, cast(value as bigint) as requests, expected, low, high, nearness_ratio,
  case when nearness_ratio < 0 then 'too little' else 'too much' end as what,
  case when nearness_ratio < 0 then 'mail' else 'note' end as class,
  abs(nearness_ratio) >= 1 as opens
from newest
where place = 1 and abs(nearness_ratio) >= 0.8 and greatest(value, expected) >= 50
