/*---
id = "app.brief_stall"
title = "Brief outage: all requests failed or hung"
tier = "app"
class = "note"
for = "0s"
every = "5s"
clear = "10m"
key = ["site", "kind"]
needs = ["request", "listener"]
when = [
  """
select 1 from request where duration_seconds >= 1.5 and ts > $now - interval '45 seconds' and ts <= $now
union all select 1 from request where http_response_status_code >= 500 and ts > $now - interval '45 seconds' and ts <= $now
union all select 1 from request where duration_seconds is null and ts > $now - interval '45 seconds' and ts <= $now limit 1""",
  """
select 1 from request
where ts > $now - interval '45 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, proxy_backend, server_address
having count(*) >= 20
  and (count(*) filter (where duration_seconds >= 1.5) >= 3 and count(distinct date_trunc('second', ts)) <= 44 or count(*) filter (where http_response_status_code >= 500) >= 5
    or count(duration_seconds) = 0 and count(distinct date_trunc('second', ts)) between 6 and 43)
limit 1""",
]
subject = "{site} on {host}"
summary = "{site} on {host}: {what} ({from_text} to {to_text} UTC); it answered before and after{member_text}{queue_text}"
why = "{why_text}"
look_at = "What happened in these seconds: the application's log and garbage-collector log, a deploy or reload, a cron job, a checkpoint or backup of the database, a fail-over, a live migration of the machine. Other findings of that minute. Does it repeat: this finding's history, and `select date_trunc('second', ts), count(*), max(duration_seconds) from request … group by 1 order by 1`."
silent_when = "Pauses or failures under 2 s (a pause of 1.5 s with requests that waited through it counts as 2) or over 15 s (other findings name those), fewer than 20 requests in the minute before, fewer than 3 that waited (5 that failed), requests that usually take as long as the pause (long polls, reports), and a site that was not answering before or after. In a log without durations a pause is seen only by the burst behind it: at least 12 requests were to be expected in the pause, and half of them and twice the usual number finish in the next two seconds. A moment without visitors has no such burst."
fix = "{fix_text}"
source = "times of the access log itself: completion minus duration; JVM safepoint and V8 major GC pauses; PostgreSQL checkpoints"
[text.what]
hung = "no request finished for {lasted:.1} s, {affected} waited"
failed = "{affected} of {all_in_slice} requests in {lasted:.0} s failed with {statuses}"
paused = "no request finished for {lasted:.0} s, then {affected} at once"
[text.member_text]
one = ""
several = " ({members} upstreams at the same time, so it is something that they share)"
single_of_pool = " (of its upstreams only {member})"
[text.queue_text]
none = ""
known = "; meanwhile {queue_peak} connections waited for {queue_process} to accept them"
[text.why_text]
hung = "All requests in flight waited for the same time and finished together: the process (or what all of them share) stood still. Typical are stop-the-world garbage collection, a blocked event loop, a lock, a reload of workers, a checkpoint, a CPU quota, or a paused virtual machine. Averages over a minute hide it."
failed = "Every request of these seconds failed, and none before and after: a restart without a drain, a deploy, a fail-over, or a dependency that was gone for a moment. Averages over a minute hide it."
paused = "The requests of these seconds finished together afterwards, so they waited. The log has no durations, so it cannot tell whether the application stood still (garbage collection, a blocked event loop, a lock, a checkpoint, a paused virtual machine) or the way from the visitors to the proxy did. Averages over a minute hide both."
[text.fix_text]
hung = "One pause needs no action. If it repeats: garbage collection (smaller heap, a concurrent collector such as ZGC, Go `GOMEMLIMIT`), synchronous work in an event loop (move it to a worker), or a checkpoint (`checkpoint_completion_target = 0.9`). Check: no new finding of this kind in a day."
failed = "One restart needs no action. If it repeats at deploys: start the new process before the old one ends (systemd socket activation, `SO_REUSEPORT`, a rolling restart with health checks), and let the proxy try the next member (`proxy_next_upstream error timeout`). Check: the next deploy leaves no finding of this kind."
paused = "One pause needs no action. If it repeats: add the durations to the log (log.format_without_times has the line); then this finding tells the application from the network. Check: no new finding of this kind in a day."
---*/
with recent as (
  select host, coalesce(pool, 'any name') as site, ts, duration_seconds, http_response_status_code as status, upstream_address
  from proxy_request
  where ts > $now - interval '90 seconds' and ts <= $now
),
-- Pauses: a gap between two completions, and requests that began before it and ended right after it.
gaps as (
  select host, site, ts, lag(ts) over (partition by host, site order by ts) as ts_before, duration_seconds
  from recent
),
pauses as (
  select host, site, ts_before as from_ts, ts as to_ts, date_part('epoch', ts) - date_part('epoch', ts_before) as lasted
  from gaps
  where ts_before is not null and date_part('epoch', ts) - date_part('epoch', ts_before) between 1.5 and 15
    and ts > $now - interval '45 seconds' and ts <= $now - interval '3 seconds'
),
waited as (
  select p.host, p.site, p.from_ts, p.to_ts, p.lasted,
    count(*) filter (where r.ts >= p.to_ts and r.ts <= p.to_ts + interval '1500 milliseconds' and r.duration_seconds >= 0.7 * p.lasted) as affected,
    count(*) filter (where r.ts <= p.from_ts) as requests_before,
    count(*) filter (where r.ts <= p.from_ts and r.duration_seconds >= 0.5 * p.lasted) as long_before,
    count(*) filter (where r.ts > p.to_ts + interval '1500 milliseconds' and coalesce(r.status, 599) < 500) as good_after,
    count(*) filter (where r.ts > p.to_ts + interval '1500 milliseconds') as all_after,
    count(distinct r.upstream_address) filter (where r.ts >= p.to_ts and r.ts <= p.to_ts + interval '1500 milliseconds' and r.duration_seconds >= 0.7 * p.lasted) as members,
    max(r.upstream_address) filter (where r.ts >= p.to_ts and r.ts <= p.to_ts + interval '1500 milliseconds' and r.duration_seconds >= 0.7 * p.lasted) as member,
    count(distinct r.upstream_address) as all_members
  from pauses p
  join recent r on r.host = p.host and r.site = p.site
  group by p.host, p.site, p.from_ts, p.to_ts, p.lasted
),
hung as (
  select *, row_number() over (partition by host, site order by lasted desc) as place
  from waited
  where affected >= 3 and requests_before >= 20 and long_before <= 0.05 * requests_before and good_after >= 5 and good_after >= 0.9 * all_after
),
-- Logs without durations: seconds without completed requests, then a burst.
untimed as (
  select host, site, date_trunc('second', ts) as second, count(*) as requests
  from recent
  group by 1, 2, 3
  having count(duration_seconds) = 0
),
steps as (
  select host, site, second, requests, lag(second) over w as second_before, lead(second) over w as second_next, lead(requests) over w as requests_next
  from untimed
  window w as (partition by host, site order by second)
),
stops as (
  select host, site, second_before + interval '1 second' as from_ts, second as to_ts,
    date_part('epoch', second) - date_part('epoch', second_before) - 1 as lasted,
    requests + case when second_next = second + interval '1 second' then requests_next else 0 end as burst
  from steps
  where date_part('epoch', second) - date_part('epoch', second_before) - 1 between 2 and 15
    and second > $now - interval '45 seconds' and second <= $now - interval '5 seconds'
),
stopped as (
  select p.host, p.site, p.from_ts, p.to_ts, p.lasted, p.burst,
    count(*) filter (where r.ts < p.from_ts and r.ts >= p.from_ts - interval '20 seconds') / 20.0 as usual,
    count(*) filter (where r.ts < p.from_ts and r.ts >= p.from_ts - interval '20 seconds' and r.status >= 500) / 20.0 as usual_failed,
    min(r.ts) as first_ts,
    count(*) filter (where r.ts >= p.to_ts + interval '2 seconds' and coalesce(r.status, 599) < 500) as good_after,
    count(*) filter (where r.ts >= p.to_ts + interval '2 seconds') as all_after
  from stops p
  join recent r on r.host = p.host and r.site = p.site
  group by p.host, p.site, p.from_ts, p.to_ts, p.lasted, p.burst
),
paused as (
  select *, row_number() over (partition by host, site order by lasted desc) as place
  from stopped
  where first_ts <= from_ts - interval '15 seconds' and usual * lasted >= 12 and burst >= 2 * usual + 0.5 * usual * lasted
    and usual_failed <= 0.05 * usual and good_after >= 5 and good_after >= 0.9 * all_after
),
-- Failures: whole seconds in which nearly all requests failed.
seconds as (
  select host, site, date_trunc('second', ts) as second, count(*) as requests,
    count(*) filter (where status >= 500) as failed, min(status) filter (where status >= 500) as least, max(status) filter (where status >= 500) as most,
    count(distinct upstream_address) filter (where status >= 500) as members, max(upstream_address) filter (where status >= 500) as member
  from recent
  group by 1, 2, 3
),
bad_seconds as (
  select *, date_part('epoch', second) - row_number() over (partition by host, site order by second) as run
  from seconds
  where failed >= 0.9 * requests
),
runs as (
  select host, site, run, min(second) as from_ts, max(second) + interval '1 second' as to_ts, count(*) as lasted,
    sum(failed) as affected, sum(requests) as all_in_slice, min(least) as least, max(most) as most, max(members) as members, max(member) as member
  from bad_seconds
  group by host, site, run
  having count(*) between 2 and 15 and sum(failed) >= 5
),
failed as (
  select r.host, r.site, r.from_ts, r.to_ts, r.lasted, r.affected, r.all_in_slice, r.least, r.most, r.members, r.member,
    count(*) filter (where c.ts < r.from_ts) as requests_before,
    count(*) filter (where c.ts < r.from_ts and c.status >= 500) as failed_before,
    count(*) filter (where c.ts >= r.to_ts) as all_after,
    count(*) filter (where c.ts >= r.to_ts and c.status < 500) as good_after,
    row_number() over (partition by r.host, r.site order by r.affected desc) as place
  from runs r
  join recent c on c.host = r.host and c.site = r.site
  group by r.host, r.site, r.from_ts, r.to_ts, r.lasted, r.affected, r.all_in_slice, r.least, r.most, r.members, r.member
),
brief as (
  select host, site, 'hung' as kind, from_ts, to_ts, cast(lasted as double) as lasted, affected, affected as all_in_slice, null as statuses,
    members, all_members, member
  from hung where place = 1
  union all
  select host, site, 'paused', from_ts, to_ts, cast(lasted as double), burst, burst as all_in_slice, null as statuses, 1 as members, 1 as all_members, null as member
  from paused where place = 1
  union all
  select host, site, 'failed' as kind, from_ts, to_ts, cast(lasted as double), affected, all_in_slice,
    case when least = most then cast(least as varchar) else concat(least, ' to ', most) end, members, members as all_members, member
  from failed
  where place = 1 and requests_before >= 20 and failed_before <= 0.05 * requests_before and good_after >= 5 and good_after >= 0.9 * all_after
    and to_ts > $now - interval '45 seconds' and to_ts <= $now - interval '2 seconds'
),
queues as (
  select b.host, b.site, b.kind, l.process_name, max(l.accept_queue_length) as queue_peak,
    row_number() over (partition by b.host, b.site, b.kind order by max(l.accept_queue_length) desc) as place
  from brief b
  join listener l on l.host = b.host and l.ts >= b.from_ts and l.ts <= b.to_ts + interval '1 second'
  where l.ts > $now - interval '90 seconds' and l.ts <= $now and l.accept_queue_length >= 3
  group by b.host, b.site, b.kind, l.process_name
)
select b.host, b.site, b.kind, b.from_ts, b.to_ts, b.lasted, b.affected, b.all_in_slice, b.statuses, b.members, b.member,
  regexp_match(cast(b.from_ts as varchar), '([0-9]+:[0-9]+:[0-9]+)')[1] as from_text,
  regexp_match(cast(b.to_ts as varchar), '([0-9]+:[0-9]+:[0-9]+)')[1] as to_text,
  q.queue_peak, coalesce(q.process_name, 'a process') as queue_process,
  case b.kind when 'hung' then 'hung' when 'paused' then 'paused' else 'failed' end as what,
  case b.kind when 'hung' then 'hung' when 'paused' then 'paused' else 'failed' end as why_text,
  case b.kind when 'hung' then 'hung' when 'paused' then 'paused' else 'failed' end as fix_text,
  case when b.members > 1 then 'several' when b.members = 1 and b.all_members > 1 then 'single_of_pool' else 'one' end as member_text,
  case when q.queue_peak is not null then 'known' else 'none' end as queue_text
from brief b
left join queues q on q.host = b.host and q.site = b.site and q.kind = b.kind and q.place = 1
