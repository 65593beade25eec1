/*---
id = "slo.burning"
title = "Error budget of an SLO burns too fast"
tier = "client"
class = "page"
for = "0s"
every = "20s"
clear = "1m"
key = ["slo", "pace", "target"]
needs = ["slo_slice"]
when = "select 1 from slo_slice where failed_count > 0 and ts > $now - interval '390 minutes' and ts <= $now limit 1"
subject = "SLO {slo}"
summary = "SLO {slo}: {failed} of {total} {unit_name} {verb_text} in {long_window} ({failed_ratio:%}), {burn:.1}× what {objective_percent} % allows; {short_window}: {short_burn:.1}×{left_text}{sure_text}"
why = "{why_text}"
look_at = "`weir slo list`: budget left and burn rate of each window. `select date_bin(interval '1 minute', ts) as minute, sum(total_count) as total, sum(failed_count) as failed from slo_slice where slo = '{slo}' and ts > now() - interval '6 hours' group by 1 order by 1` shows when it began. Hosts with failures: {at_hosts}. Findings of these hosts are listed above this one if weir sees the cause."
silent_when = "Both windows of a pair must burn faster than its rate: 14.4× in 1 h and 5 min, or 6× in 6 h and 30 min (page), or 1× in 3 d and 6 h (mail), and the longer one must have at least 10 failures. Where a rate would need more than 90 % failures, 90 % is the bound. Minutes that were not counted (a new SLO, a hub that was off) are taken as free of failures. A slow burn opens only while the last half hour burns faster than 1×, and not beside a fast one. While a finding on one of the hosts with failures explains it, it is a note, and stays one after that ended until its short window has passed."
fix = "{fix_text}"
source = "Google SRE workbook, alerting on SLOs (multi-window, multi-burn-rate); OpenSLO/slogen#47, slok/sloth#133, pyrra-dev/pyrra#1925"
[text.verb_text]
failed = "failed"
slow = "were too slow"
[text.why_text]
fast = "At this rate the budget of {window_days:.0} days is spent after {empty_seconds:duration}. Clients see the failures now."
slow = "The failures are few at a time, and at this rate more than the objective allows in {window_days:.0} days: the budget runs out before its window is over."
[text.fix_text]
fast = "Find the cause on {at_hosts} and remove it: what was deployed or configured last goes back first. Check: `weir slo list` shows less than 1× in 5 min."
slow = "Plan the repair before the budget is spent: the slowest or most failing paths first (`select url_path, count(*) from request … group by 1`). Check: `weir slo list` shows less than 1× in 6 h. If no one misses what fails, the objective is too high: lower it."
[text.left_text]
known = "; budget left {budget_left_ratio:%}"
unknown = ""
[text.sure_text]
sure = ""
unsure = "; few {unit_name}: the rate is between {low_burn:.1}× and {high_burn:.1}×"
[chart]
title = "Failed requests or checks of the SLO"
unit = ""
sql = """
select date_bin(interval '1 minute', ts) as ts, sum(failed_count) as failed, sum(total_count) as total
from slo_slice where slo = {slo} and ts > $now - interval '6 hours' and ts <= $now group by 1 order by 1"""
---*/
with newest as (
  select slo, definition, max(ts) as last_ts
  from slo_slice
  where ts > $now - interval '30 minutes' and ts <= $now
  group by slo, definition
),
-- A changed definition begins a new history.
current as (
  select slo, definition, last_ts, row_number() over (partition by slo order by last_ts desc, definition) as place
  from newest
),
slices as (
  select s.*, c.last_ts
  from slo_slice s
  join current c on c.slo = s.slo and c.definition = s.definition
  where s.ts > $now - interval '4351 minutes' and s.ts <= $now and c.place = 1
),
counted as (
  select slo, last_ts,
    max(kind) as kind, max(target) as target,
    max(case when ts = last_ts then objective_ratio end) as objective_ratio,
    max(case when ts = last_ts then window_seconds end) as window_seconds,
    max(case when ts > last_ts - interval '15 minutes' then budget_left_ratio end) as budget_left_ratio,
    count(distinct case when ts > last_ts - interval '1 hour' then ts end) as minutes_1h,
    count(distinct case when ts > last_ts - interval '6 hours' then ts end) as minutes_6h,
    count(distinct case when ts > last_ts - interval '3 days' then ts end) as minutes_3d,
    coalesce(sum(case when ts > last_ts - interval '5 minutes' then total_count end), 0) as total_5m,
    coalesce(sum(case when ts > last_ts - interval '5 minutes' then failed_count end), 0) as failed_5m,
    coalesce(sum(case when ts > last_ts - interval '30 minutes' then total_count end), 0) as total_30m,
    coalesce(sum(case when ts > last_ts - interval '30 minutes' then failed_count end), 0) as failed_30m,
    coalesce(sum(case when ts > last_ts - interval '1 hour' then total_count end), 0) as total_1h,
    coalesce(sum(case when ts > last_ts - interval '1 hour' then failed_count end), 0) as failed_1h,
    coalesce(sum(case when ts > last_ts - interval '6 hours' then total_count end), 0) as total_6h,
    coalesce(sum(case when ts > last_ts - interval '6 hours' then failed_count end), 0) as failed_6h,
    coalesce(sum(case when ts > last_ts - interval '3 days' then total_count end), 0) as total_3d,
    coalesce(sum(case when ts > last_ts - interval '3 days' then failed_count end), 0) as failed_3d,
    string_agg(distinct case when ts > last_ts - interval '30 minutes' then failing_hosts end, ',') as at_hosts,
    string_agg(distinct case when ts > last_ts - interval '30 minutes' then failing_upstreams end, ',') as at_upstreams
  from slices
  group by slo, last_ts
),
-- Shares of failures; a long window is diluted by the minutes that were not counted.
rated as (
  select *, 1.0 - objective_ratio as allowed,
    case when total_5m > 0 then cast(failed_5m as double) / total_5m else 0.0 end as ratio_5m,
    case when total_30m > 0 then cast(failed_30m as double) / total_30m else 0.0 end as ratio_30m,
    case when total_6h > 0 then cast(failed_6h as double) / total_6h else 0.0 end as short_6h,
    case when total_1h > 0 then cast(failed_1h as double) / total_1h * least(minutes_1h / 60.0, 1.0) else 0.0 end as ratio_1h,
    case when total_6h > 0 then cast(failed_6h as double) / total_6h * least(minutes_6h / 360.0, 1.0) else 0.0 end as ratio_6h,
    case when total_3d > 0 then cast(failed_3d as double) / total_3d * least(minutes_3d / 4320.0, 1.0) else 0.0 end as ratio_3d
  from counted
),
judged as (
  select *,
    failed_1h >= 10 and ratio_1h > least(14.4 * allowed, 0.9) and ratio_5m > least(14.4 * allowed, 0.9) as is_page_1h,
    failed_6h >= 10 and ratio_6h > least(6.0 * allowed, 0.9) and ratio_30m > least(6.0 * allowed, 0.9) as is_page_6h,
    failed_3d >= 10 and ratio_3d > allowed * 1.000001 and short_6h > allowed * 1.000001 as is_mail_3d
  from rated
),
burning as (
  select slo, kind, target, objective_ratio, window_seconds, budget_left_ratio, allowed, 'fast' as pace, 'page' as class, true as opens,
    '1 h' as long_window, '5 min' as short_window, failed_1h as failed, total_1h as total, ratio_1h as burned, ratio_5m as short_ratio,
    360 as holds_seconds, at_hosts, at_upstreams
  from judged where is_page_1h
  union all
  select slo, kind, target, objective_ratio, window_seconds, budget_left_ratio, allowed, 'fast' as pace, 'page' as class, true as opens,
    '6 h' as long_window, '30 min' as short_window, failed_6h as failed, total_6h as total, ratio_6h as burned, ratio_30m as short_ratio,
    1860 as holds_seconds, at_hosts, at_upstreams
  from judged where is_page_6h and not is_page_1h
  union all
  select slo, kind, target, objective_ratio, window_seconds, budget_left_ratio, allowed, 'slow' as pace, 'mail' as class,
    ratio_30m > allowed * 1.000001 as opens,
    '3 d' as long_window, '6 h' as short_window, failed_3d as failed, total_3d as total, ratio_3d as burned, short_6h as short_ratio,
    21660 as holds_seconds, at_hosts, at_upstreams
  from judged where is_mail_3d and not is_page_1h and not is_page_6h
),
-- 95 % interval of the share (Wilson), which holds for few requests as well.
bounded as (
  select *, cast(failed as double) / total as failed_ratio, cast(total as double) as n,
    1.96 * sqrt(cast(failed as double) / total * (1.0 - cast(failed as double) / total) / total + 0.9604 / (cast(total as double) * total)) as spread
  from burning
)
select '' as host, slo, pace, coalesce(target, '') as target, class, opens, failed, total, failed_ratio, objective_ratio,
  cast(round(objective_ratio * 10000000.0) / 100000.0 as varchar) as objective_percent,
  burned / allowed as burn, short_ratio / allowed as short_burn, long_window, short_window,
  greatest((failed_ratio + 1.9208 / n - spread) / (1.0 + 3.8416 / n) / allowed, 0.0) as low_burn,
  (failed_ratio + 1.9208 / n + spread) / (1.0 + 3.8416 / n) / allowed as high_burn,
  window_seconds / 86400.0 as window_days,
  window_seconds * allowed / burned as empty_seconds,
  budget_left_ratio,
  case when kind = 'checks' then 'checks' else 'requests' end as unit_name,
  case when kind = 'latency' then 'slow' else 'failed' end as verb_text,
  case when pace = 'fast' then 'fast' else 'slow' end as why_text,
  case when pace = 'fast' then 'fast' else 'slow' end as fix_text,
  case when budget_left_ratio is null then 'unknown' else 'known' end as left_text,
  case when total < 1000 then 'unsure' else 'sure' end as sure_text,
  holds_seconds, coalesce(at_hosts, '') as at_hosts, coalesce(at_upstreams, '') as at_upstreams
from bounded
