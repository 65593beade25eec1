/*---
id = "proxy.masked_errors"
title = "Upstream errors masked by proxy retries"
tier = "app"
class = "mail"
for = "3s"
every = "5s"
clear = "2m"
key = ["upstream"]
needs = ["request", "log"]
when = "select 1 from request where upstream_tries > 1 and http_response_status_code < 500 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["client.aborts_499", "proxy.retry_amplification"]
subject = "upstreams of {upstream} on {host}"
summary = "{saved} of {requests} requests to {upstream} on {host} ({saved_ratio:%}) succeeded only after a retry in 2 minutes, clients saw {errors} errors; {member_text}; {past_text}"
why = "The proxy hides a bad member by trying the next. So the site's error rate stays flat until the last good member is gone, and each such request takes twice as long: an early fault that is still cheap to fix."
look_at = "Which member: nginx's error log names it (`select attrs['upstream'], count(*) from log where program = 'nginx' and severity = 'error' …`); failures by status (http_500 in proxy_next_upstream) are not logged, so check the members' own logs. Was one deployed last?"
silent_when = "Fewer than 100 proxied requests in 2 minutes, at most the threshold (1 % is a default: `weir thresholds proxy.masked_errors` gives the value for this fleet) saved by a retry, fewer than 10 of them, clients get more than 0.5 % errors themselves (then other findings fire), or less than 3× the share of 10 and of 60 minutes ago. Internal redirects of nginx look the same and are constant: the history contains them."
fix = "{fix_text} Check: the share of retried requests is back below 1 %. Do not remove `proxy_next_upstream` to see the errors: clients would see them."
source = "fault lab F37 (23 % errors at one of four members, none for clients)"
[text.fix_text]
unknown = "Find the member by its own log and take it out of the pool (nginx: `down` after its `server` line, then `nginx -s reload`; HAProxy: `set server BACKEND/NAME state drain`); roll it back if it was deployed last."
known = "Take {member} out of the pool (nginx: `down` after its `server` line, then `nginx -s reload`; HAProxy: `set server BACKEND/NAME state drain`) and fix it; roll it back if it was deployed last."
[text.member_text]
unknown = "the proxy's log names no member"
known = "{lines} of {all_lines} lines in the proxy's log name {member}"
[threshold]
value = 0.01
unit = "ratio"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '2 minutes', ts) as slice, host, coalesce(pool, 'its upstreams') as subject,
    cast(count(*) filter (where upstream_tries > 1 and http_response_status_code < 500) as double) / count(*) as value
  from proxy_request
  where ts >= $from and ts < $to and upstream_tries > 0
  group by 1, 2, 3
  having count(*) >= 100
) slices
group by 1, 2, 3"""
---*/
with recent as (
  select host, coalesce(pool, 'its upstreams') as upstream,
    count(*) as requests,
    count(*) filter (where upstream_tries > 1 and http_response_status_code < 500) as saved,
    count(*) filter (where http_response_status_code >= 500) as errors
  from proxy_request
  where ts > $now - interval '2 minutes' and ts <= $now and upstream_tries > 0
  group by 1, 2
),
masked as (
  select *, cast(saved as double) / requests as saved_ratio
  from recent
  where requests >= 100 and saved >= 10 and saved > $threshold * requests and errors <= 0.005 * requests
),
past_rows as (
  select host, coalesce(pool, 'its upstreams') as upstream, upstream_tries, http_response_status_code from proxy_request
  where ts > $now - interval '630 seconds' and ts <= $now - interval '600 seconds' and upstream_tries > 0
  union all
  select host, coalesce(pool, 'its upstreams') as upstream, upstream_tries, http_response_status_code from proxy_request
  where ts > $now - interval '3630 seconds' and ts <= $now - interval '3600 seconds' and upstream_tries > 0
),
past as (
  select host, upstream, cast(count(*) filter (where upstream_tries > 1 and http_response_status_code < 500) as double) / count(*) as past_ratio
  from past_rows group by host, upstream having count(*) >= 20
),
members as (
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as member, count(*) as lines
  from log
  where program = 'nginx' and ts > $now - interval '2 minutes' and ts <= $now and attrs['upstream'] is not null and message_template like '%upstream%'
  group by 1, 2
),
worst as (
  select host, member, lines, row_number() over (partition by host order by lines desc, member) as place,
    sum(lines) over (partition by host) as all_lines
  from members
)
select m.host, m.upstream, m.requests, m.saved, m.saved_ratio, m.errors, p.past_ratio, w.member, w.lines, w.all_lines,
  case when w.member is null then 'unknown' else 'known' end as member_text,
  case when w.member is null then 'unknown' else 'known' end as fix_text,
  case when p.past_ratio is null then 'no history to compare with'
       else concat('before: ', cast(round(1000 * p.past_ratio) / 10 as varchar), ' %') end as past_text,
  p.past_ratio is null or m.saved_ratio > 3 * p.past_ratio as opens
from masked m
left join past p on p.host = m.host and p.upstream = m.upstream
left join worst w on w.host = m.host and w.place = 1
