/*---
id = "traffic.unusual"
title = "Unusual request rate for this time of the week"
tier = "edge"
class = "mail"
for = "0s"
every = "30s"
clear = "0s"
key = ["subject"]
needs = ["measure", "request"]
when = "select 1 from measure where rule = 'traffic.unusual' and abs(nearness_ratio) >= 0.8 and ts > $now - interval '11 minutes' and ts <= $now limit 1"
subject = "{subject}"
summary = "{subject} on {host}: {requests} requests in 5 minutes, normal is {expected:.0} ({low:.0} to {high:.0}) at this time, so {what}"
why = "The count is compared with the same half hour of the weeks before, at the level of the last seven days, so neither night nor growth explains it. Less: clients cannot reach the site, or cannot proceed. More: a campaign, a crawler, retries of a failing client."
look_at = "The same sites' other logs: one source or all? `select http_response_status_code, count(*) from request where ts > now() - interval '10 minutes' group by 1`, and the same by user agent and by path. For less: from outside, `dig NAME` and `curl -v`."
silent_when = "Less than a day of history of this log; numbers in a log's name are ignored, so a log with a date in its name is one log. The bounds are mined every night so that their replay over the last four weeks gives at most one event a week for all logs together (`weir thresholds traffic.unusual` lists them). Holidays look like a fault, and so do weekends with less than three weeks of history. An incident that was not judged real (`weir findings judge`) is learned as normal."
fix = "Less: follow a client's path from outside, name server, balancer, proxy, and undo the last change where the number falls. More: `limit_req` for the client that sends too much, or more members if the traffic is legitimate. Check: the next five minutes are between {low:.0} and {high:.0}."
source = "field notes C (mine logs for what is normal); the week in half hours, level tracking, replay against a budget of false findings"
[chart]
title = "Requests per five minutes, and the normal range"
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
  case when nearness_ratio < 0 then 'too few' else 'too many' end as what,
  case when nearness_ratio < 0 then 'mail' else 'note' end as class,
  abs(nearness_ratio) >= 1 as opens
from newest
where place = 1 and abs(nearness_ratio) >= 0.8 and greatest(value, expected) >= 50
