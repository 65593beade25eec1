/*---
id = "clock.skew"
title = "Log timestamps differ from the host clock"
tier = "host"
class = "mail"
for = "10s"
every = "10s"
clear = "3m"
key = ["source"]
needs = ["request", "log", "ship"]
when = """
select 1 from request where abs(cast(observed_ts as bigint) - cast(ts as bigint)) > 2000000 and ts > $now - interval '6 minutes' and observed_ts > $now - interval '60 seconds'
union all select 1 from log where abs(cast(observed_ts as bigint) - cast(ts as bigint)) > 2000000 and ts > $now - interval '6 minutes' and observed_ts > $now - interval '60 seconds'
union all select 1 from ship where least_age_seconds > 2 and timed_lines >= 20 and ts > $now - interval '1 minute' and ts <= $now limit 1"""
explains = ["app.service_rejects"]
subject = "{source} on {host}"
summary = "lines of {source} on {host} are {skew_seconds:duration} {direction} the host's clock (median of {lines} lines in {window_seconds} s){zone_text}"
why = "weir compares the timestamp of each line with the host's clock when it reads the line. Lines from the future are in no window of \"now\", lines from the past arrive too late for it: searches miss them, rules see gaps and bursts that did not happen, and the order of events across tiers is wrong."
look_at = "A multiple of 15 minutes is a time zone: the program writes local time without an offset. Other differences: `timedatectl` and `chronyc tracking` on the host that wrote the line (with central logs another host: see the host name in the line), or a container with a faked or frozen clock."
silent_when = "At most 2 s, fewer than 20 lines, or a log that weir lags behind on (`ship`). Late lines are not skew: a log counts as late when even its fastest line is, so buffered logs (nginx `buffer=… flush=1m`) stay silent, and only when its lines were read over 40 s or more: content older than weir's start is old, not late. File logs are also judged by their pace (`ship`): 20 or more lines written over 4 s or more, spaced as their timestamps are, all late by the same amount within 2 s; so an offset of hours is detected as well as one of seconds. Logs in buckets arrive late as a whole and are excluded. Clocks ahead are detected up to 15 hours. This does not show whether the host's own clock is right."
fix = "Time zone: let the program write the offset or UTC (nginx `$time_iso8601` or `$msec`, Java `XXX`, Python `%z`; containers: `TZ=UTC`), or set the host to UTC. Clock: `systemctl enable --now chrony`, then `chronyc makestep` once; containers use the host's clock. Check: the next lines are within 2 s. Do not step the clock of a database host while it runs: `chronyc` slews it."
source = "fault lab F20 (89.98 s); field notes A (lines from the future poison search)"
---*/
with lines as (
  select host, source, observed_ts, observed_ts > $now - interval '15 seconds' as is_last,
    -- Some proxies log a request's start time at its end: its duration does not make the line late.
    case when observed_ts > ts then greatest(date_part('epoch', observed_ts) - date_part('epoch', ts) - coalesce(duration_seconds, 0), 0)
      else date_part('epoch', observed_ts) - date_part('epoch', ts) end as delay
  from request
  where ts > $now - interval '6 minutes' and ts <= $now + interval '15 hours'
    and observed_ts > $now - interval '60 seconds' and observed_ts <= $now
  union all
  select host, source, observed_ts, observed_ts > $now - interval '15 seconds' as is_last,
    date_part('epoch', observed_ts) - date_part('epoch', ts) as delay
  from log
  where ts > $now - interval '6 minutes' and ts <= $now + interval '15 hours'
    and observed_ts > $now - interval '60 seconds' and observed_ts <= $now and source not like 'weir:%'
),
counted as (
  -- A busy log is judged by its last 15 s, any other by the last minute.
  select host, source, count(*) filter (where is_last) >= 20 as is_quick, count(*) as lines,
    count(*) filter (where is_last) as last_lines, approx_percentile_cont(delay, 0.5) as median_delay,
    approx_percentile_cont(delay, 0.5) filter (where is_last) as last_median_delay, min(delay) as least_delay,
    date_part('epoch', max(observed_ts)) - date_part('epoch', min(observed_ts)) as span_seconds
  from lines
  group by host, source
  having count(*) >= 20
),
sources as (
  select host, source, least_delay,
    case when is_quick and last_median_delay < -2 then 15 else 60 end as window_seconds,
    case when is_quick and last_median_delay < -2 then last_lines else lines end as lines,
    case when is_quick then last_median_delay else median_delay end as median_delay
  from counted
  where case when is_quick then last_median_delay else median_delay end < -2 or (least_delay > 2 and span_seconds >= 40)
),
-- The agent's measure of lines written at the pace of their timestamps.
paced as (
  select host, source, timed_lines, least_age_seconds, greatest_age_seconds, timed_span_seconds,
    row_number() over (partition by host, source order by ts desc) as place
  from ship
  where ts > $now - interval '1 minute' and ts <= $now and least_age_seconds is not null and source not like 's3://%'
),
late as (
  select host, source, least_age_seconds as least_delay, timed_lines as lines, cast(round(timed_span_seconds) as bigint) as window_seconds
  from paced
  where place = 1 and timed_lines >= 20 and timed_span_seconds >= 4 and least_age_seconds > 2
    and greatest_age_seconds - least_age_seconds <= 2
),
all_sources as (
  select host, source, lines, window_seconds, median_delay, least_delay from sources
  union all
  select l.host, l.source, l.lines, l.window_seconds, l.least_delay as median_delay, l.least_delay
  from late l left join sources s on s.host = l.host and s.source = l.source
  where s.source is null
),
behind as (
  select host, source, max(lag_seconds) as lag_seconds
  from ship
  where ts > $now - interval '2 minutes' and ts <= $now
  group by host, source
  having max(lag_seconds) > 2
),
judged as (
  select s.host, s.source, s.lines, s.window_seconds, s.median_delay, s.least_delay,
    case when s.median_delay < 0 then -s.median_delay else s.least_delay end as skew_seconds,
    case when s.median_delay < 0 then 'ahead of' else 'behind' end as direction
  from all_sources s
  left join behind b on b.host = s.host and b.source = s.source
  where b.source is null
)
select *,
  case when skew_seconds > 890 and abs(skew_seconds - 900 * round(skew_seconds / 900)) < 10
    then concat(': a time zone offset of ', cast(round(skew_seconds / 900) * 15 as bigint), ' minutes') else '' end as zone_text,
  case when skew_seconds > 30 and not (skew_seconds > 890 and abs(skew_seconds - 900 * round(skew_seconds / 900)) < 10) then 'page' else 'mail' end as class
from judged
