/*---
id = "check.failing"
title = "Check failing"
tier = "host"
class = "mail"
for = "0s"
every = "10s"
clear = "30s"
key = ["kind", "target", "check"]
needs = ["check_result"]
when = "select 1 from check_result where status <> 'ok' and kind in ('plugin', 'passive', 'tls') and ts > $now - interval '50 hours' and ts <= $now limit 1"
explains = ["slo.burning"]
subject = "{check} of {host}"
summary = "{check} on {host} is {status}: {output}{value_text}"
why = "{why_text}"
look_at = "`select ts, status, output, perfdata from check_result where host = '{host}' and check = '{check}' order by ts desc limit 20`: since when, and how the figures moved. Run the plugin by hand on {host}, as the account that it runs as."
silent_when = "The result is ok, expired (check.stale), or of a plugin only one in a row: two are needed, so a single slow run is no finding; a passive result counts at once. Warnings are notes. So are checks that could not be done (unknown), unless the last known result was critical or is 30 minutes old: what worked and is unknown for that long is a mail. Probes that fail are probe.down; only a certificate that expires soon is found here."
fix = "{fix_text}"
source = "Monitoring Plugins Development Guidelines"
[text.value_text]
none = ""
bounded = "; {observed_value}{unit_name} against {threshold}"
[text.why_text]
failed = "A threshold that was set for this check is exceeded."
unknown = "The check could not be done, so nothing is known of what it checks: a plugin that is missing, that was killed at its timeout, or that may not read something."
[text.fix_text]
failed = "Repair what the check reports; if the threshold does not fit, change the arguments of `command` in `[[checks]]`. Check: its newest row in check_result is ok."
unknown = "Repair the check itself: {output}. Check: its newest row in check_result is not unknown."
---*/
with recent as (
  select host, kind, target, check, status, output, observed_value, observed_unit, threshold, ts, expires_ts
  from check_result
  where ts > $now - interval '25 hours' and ts <= $now
  union all
  select host, kind, target, check, status, output, observed_value, observed_unit, threshold, ts, expires_ts
  from check_result
  where kind = 'passive' and ts > $now - interval '50 hours' and ts <= $now - interval '25 hours' and expires_ts > $now
),
results as (
  select host, kind, target, check, status, output, observed_value, observed_unit, threshold, ts,
    row_number() over (partition by host, kind, target, check order by ts desc) as place
  from recent
  where (expires_ts is null or expires_ts > $now)
    and (kind in ('plugin', 'passive') or kind = 'tls' and status in ('ok', 'warn'))
),
known as (
  select host, kind, target, check, max(ts) as known_ts,
    max(case when status = 'critical' then ts end) as critical_ts
  from recent
  where status <> 'unknown' and kind in ('plugin', 'passive')
  group by host, kind, target, check
),
counted as (
  select host, kind, target, check, count(*) filter (where status <> 'ok') as bad
  from results
  where place <= 2
  group by host, kind, target, check
)
select r.host, r.kind, r.target, r.check, r.status, coalesce(substr(r.output, 1, 80), 'no output') as output,
  r.observed_value, coalesce(r.observed_unit, '') as unit_name, r.threshold,
  case when r.observed_value is null or r.threshold is null then 'none' else 'bounded' end as value_text,
  case when r.status = 'unknown' then 'unknown' else 'failed' end as why_text,
  case when r.status = 'unknown' then 'unknown' else 'failed' end as fix_text,
  case
    when r.status = 'critical' then 'mail'
    when r.status = 'unknown' and (k.critical_ts = k.known_ts or k.known_ts <= $now - interval '30 minutes') then 'mail'
    else 'note'
  end as class,
  c.bad = 2 or r.kind in ('passive', 'tls') as opens
from results r
join counted c on c.host = r.host and c.kind = r.kind and c.target = r.target and c.check = r.check
left join known k on k.host = r.host and k.kind = r.kind and k.target = r.target and k.check = r.check
where r.place = 1 and r.status <> 'ok'
