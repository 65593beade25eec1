/*---
id = "weir.output_lag"
title = "Output lagging, or rows lost on the way to a target"
tier = "log"
class = "mail"
for = "0s"
every = "5s"
clear = "20s"
key = ["output"]
needs = ["output_run"]
when = "select 1 from output_run where (lag_seconds - coalesce(batch_seconds, 0) > 5 or rows_lost > 0 or rows_refused > 0) and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "output {output} on {host}"
summary = "{output} ({target}): {what}; {why_text}"
why = "Searches and computations there do not see what weir has. Up to `keep_bytes` of the log waits on this hub's disk; beyond that the oldest rows are dropped and never arrive."
look_at = "`select ts, rows, failures, rows_lost, rows_refused, lag_seconds, error, refusals from output_run where output = …`. Is the target up, and may this login write there? Without failures it is too slow: check its own metrics (Elasticsearch: rejected bulk requests; Kafka: the brokers' disks)."
silent_when = "Rows waited no longer than 60 s in one of the last three samples, and rows were accepted in one of them or none waited longer than 12 s; or, while attempts fail, none longer than 5 s in the last two; and none was dropped or refused in the last 10 minutes. Batching time (`batch_seconds`, 60 s for a bucket) does not count. It is a note while rows wait less than a minute in one sample, as for a restarting target. Ingest continues in any case."
fix = "{fix_text} Check: lag_seconds of {output} falls to less than a minute above its batch_seconds, rows_lost and rows_refused stay 0."
source = "own: a stopped output goes unnoticed until its rows are missed"
[text.why_text]
failed = "the last attempt failed: {error}"
slow = "attempts succeed, so the target is too slow"
succeeds = "attempts succeed now"
[text.fix_text]
failed = "Fix what the error names: the output then resumes without action."
slow = "Give the target more capacity, copy less (`where`, `columns`), or raise `keep_bytes` of this output."
refused = "Give the index a mapping that matches the table (see docs/outputs.md), or copy fewer `columns`; refused rows exist in weir only."
[chart]
title = "Seconds that rows wait"
unit = "s"
sql = """
select ts, lag_seconds from output_run
where output = {output} and host = {host} and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with runs as (
  select *, lag_seconds - coalesce(batch_seconds, 0) as over_seconds, row_number() over (partition by host, output order by ts desc) as place
  from output_run
  where ts > $now - interval '10 minutes' and ts <= $now
),
looks as (
  select host, output,
    max(target) as target,
    sum(rows) filter (where place <= 3) as rows,
    sum(rows_lost) as rows_lost,
    sum(rows_refused) as rows_refused,
    max(refusals) as refusals,
    count(*) filter (where place <= 3 and ts > $now - interval '60 seconds') as looks,
    min(over_seconds) filter (where place <= 3) as least_over_seconds,
    max(over_seconds) filter (where place = 1) as over_seconds,
    max(lag_seconds) filter (where place <= 3) as lag_seconds,
    max(lag_bytes) filter (where place <= 3) as lag_bytes,
    sum(failures) filter (where place <= 3) as failures,
    max(error) filter (where place <= 3) as error,
    count(*) filter (where place <= 2 and ts > $now - interval '30 seconds' and not is_success and rows = 0 and over_seconds > 5) as failed_looks
  from runs
  group by host, output
),
judged as (
  select *, coalesce(looks >= 3 and (least_over_seconds > 60 or (over_seconds > 12 and rows = 0)) or failed_looks = 2, false) as is_late from looks
)
select host, output, target, rows_lost, rows_refused, error,
  case when rows_lost > 0 or rows_refused > 0 or (looks >= 3 and least_over_seconds > 60) then 'mail' else 'note' end as class,
  concat_ws(', ',
    case when rows_lost > 0 then concat(rows_lost, ' rows were dropped in the last 10 minutes') end,
    case when rows_refused > 0 then concat(rows_refused, ' rows were refused in the last 10 minutes (', coalesce(refusals, 'no reason'), ')') end,
    case when is_late then concat('rows have been waiting for ', cast(round(lag_seconds) as bigint), ' s (',
      round(lag_bytes / 1048576.0, 1), ' MiB)') end
  ) as what,
  case when error is not null then 'failed' when is_late then 'slow' else 'succeeds' end as why_text,
  case when error is not null then 'failed' when is_late or rows_lost > 0 then 'slow' else 'refused' end as fix_text
from judged
where is_late or rows_lost > 0 or rows_refused > 0
