/*---
id = "app.slow_url"
title = "Slow URL: high time to first byte"
tier = "app"
class = "mail"
for = "1s"
every = "1s"
clear = "15s"
key = ["server_port", "url_template"]
needs = ["wire_request", "wire_slice", "request"]
when = "select 1 from wire_request where think_seconds >= $threshold and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = ["slo.burning"]
subject = "{url_template} on port {server_port} of {host}"
summary = "{url_template} on port {server_port} of {host}: think time p95 {think_p95:duration} (last request byte to first response byte) over 30 s ({requests} requests){others_text}; {way_text}"
why = "On the wire the whole request had arrived and nothing came back: this time includes neither the network nor the client, and calls to other servers are subtracted. The program on this port is slow for this URL."
look_at = "`select r.url_path, w.think_seconds, w.request_first_ts from wire_request w join request r on r.source = w.source and r.source_offset = w.source_offset where w.url_template = '{url_template}' order by 2 desc limit 20`: one argument or all? Then profile this route and what it calls (database, cache, other services)."
silent_when = "Fewer than 10 requests in 30 s, p95 below the threshold (200 ms is a default: `weir thresholds app.slow_url` gives the value for this fleet), or below 3× the port's other URLs (without other URLs: below 1 s). Silent while the tap missed packets of that time. Long polls and reports are slow by nature: copy the rule with a condition on url_template. app.slow judges proxy logs and all URLs together."
fix = "Work on the code behind {url_template}, not on the proxy or the network: find what it waits for, add an index or a cache, or move it out of the request. To limit the damage, cap how many of them run at once (nginx `limit_conn`), so that fast URLs do not queue behind them. Check: think_p95 of this finding falls."
source = "fault lab 3_slow_app (only /app/search: 1,348 ms of think time, the rest as before)"
[chart]
title = "Think time of this URL (p95)"
unit = "s"
sql = """
select date_bin(interval '5 seconds', ts) as ts, percentile(think_seconds, 0.95) as p95 from wire_request
where host = {host} and url_template = {url_template} and ts > $now - interval '10 minutes' and ts <= $now
group by 1 order by 1"""
[threshold]
value = 0.2
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '30 seconds', ts) as slice, host, url_template as subject, percentile(think_seconds, 0.95) as value
  from wire_request
  where ts >= $from and ts < $to and think_seconds is not null and url_template is not null
  group by 1, 2, 3
  having count(*) >= 10
) slices
group by 1, 2, 3"""
---*/
with rows_ as (
  select w.host, w.source, w.source_offset, w.tier, w.url_template, w.think_seconds, w.transfer_seconds, w.parent_source_offset, r.server_port
  from wire_request w join request r
    on r.host = w.host and r.source = w.source and r.source_offset = w.source_offset and r.ts = w.ts
    and r.ts > $now - interval '30 seconds' and r.ts <= $now and r.tier = w.tier
  where w.ts > $now - interval '30 seconds' and w.ts <= $now and w.think_seconds is not null and w.url_template is not null
),
children as (
  select host, source, parent_source_offset as source_offset, sum(think_seconds) as think
  from rows_ where parent_source_offset is not null group by 1, 2, 3
),
own as (
  select r.host, r.server_port, r.url_template, r.transfer_seconds, c.think as child_think,
    greatest(r.think_seconds - coalesce(c.think, 0.0), 0.0) as think
  from rows_ r left join children c on c.host = r.host and c.source = r.source and c.source_offset = r.source_offset
),
lossy as (
  select distinct host, server_port from wire_slice
  where is_lossy and ts > $now - interval '30 seconds' and ts <= $now
),
urls as (
  select host, server_port, url_template, count(*) as requests, percentile(think, 0.95) as think_p95,
    percentile(think, 0.5) as think_p50, percentile(transfer_seconds, 0.95) as transfer_p95,
    count(child_think) as with_child
  from own group by host, server_port, url_template
  having count(*) >= 5
),
ranked as (
  select u.*,
    min(think_p95) over (partition by host, server_port) as fastest_p95,
    count(*) over (partition by host, server_port) as url_count
  from urls u
)
select r.host, r.server_port, r.url_template, r.requests, r.think_p95, r.think_p50, r.transfer_p95,
  case when r.url_count > 1 then r.fastest_p95 end as fastest_p95, r.url_count,
  case when r.with_child * 2 > r.requests then 'proxy' else 'app' end as tier,
  case when r.url_count > 1 and r.think_p95 >= 3 * r.fastest_p95
       then concat(', fastest other URL on the port: ', cast(cast(round(1000.0 * r.fastest_p95) as bigint) as varchar), ' ms')
       else '' end as others_text,
  case when r.with_child * 2 > r.requests then 'calls to other servers are subtracted, so the time is spent in the program on this port'
       else concat('sending the response takes ', cast(cast(round(1000.0 * r.transfer_p95) as bigint) as varchar), ' ms') end as way_text
from ranked r left join lossy l on l.host = r.host and l.server_port = r.server_port
where l.host is null and r.requests >= 10 and r.think_p95 >= $threshold
  and ((r.url_count > 1 and r.think_p95 >= 3 * r.fastest_p95) or r.think_p95 >= 1.0)
