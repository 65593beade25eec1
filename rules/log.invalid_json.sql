/*---
id = "log.invalid_json"
title = "Invalid JSON in a JSON log"
tier = "log"
class = "mail"
for = "0s"
every = "5s"
clear = "2m"
key = ["source"]
needs = ["request", "log", "reject", "config_directive"]
when = [
  """
select 1 as n from reject where reason = 'invalid_json' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 as n from request where repair is not null and ts > $now - interval '4 minutes' and ts <= $now
union all select 1 as n from log where repair is not null and ts > $now - interval '4 minutes' and ts <= $now
limit 1""",
  """
select 1 from (
  select host, source, count(*) as bad, (max(source_offset) - min(source_offset)) / greatest(avg(length(raw)), 1.0) as lines_between
  from reject
  where reason = 'invalid_json' and ts > $now - interval '2 minutes' and ts <= $now
  group by host, source
  union all
  select host, source, count(*) as bad, 0.0 as lines_between
  from request
  where repair is not null and observed_ts > $now - interval '2 minutes' and observed_ts <= $now and ts > $now - interval '4 minutes' and ts <= $now
  group by host, source
  union all
  select host, source, count(*) as bad, 0.0 as lines_between
  from log
  where repair is not null and observed_ts > $now - interval '2 minutes' and observed_ts <= $now and ts > $now - interval '4 minutes' and ts <= $now
  group by host, source
)
group by host, source
having sum(bad) >= 3 and sum(bad) > 0.001 * coalesce(max(lines_between), 0.0)
limit 1""",
]
subject = "{source}"
summary = "{source}: {rejected} of {lines} lines in 2 minutes are invalid JSON (kept in the table reject); {repaired} more were repaired ({share:%}). {sample_text}"
why = "Hand-made JSON breaks on client input: nginx writes a quote in a user agent as `\\x22`, which is not JSON. Strict shippers drop such lines, and these are the lines of attackers and odd clients. weir repairs `\\xNN`; a line that is still unreadable is kept raw in reject."
look_at = "`select ts, reason, detail, raw from reject where source = '…' order by ts desc`: truncated lines point to a killed writer or a full disk, unknown escapes to the log_format."
silent_when = "Fewer than 3 bad lines, or at most 0.1 % of the lines of 2 minutes. Repaired lines are a note, unreadable lines are a mail."
fix = "{place}add `escape=json` to the log_format: `log_format NAME escape=json '…';` (nginx 1.11.8 or newer), `nginx -t && nginx -s reload`. It is safe: only the escaping changes. Check: repair is NULL for new rows and reject gets no more rows of this source. Other programs: use a JSON library to write the line."
source = "field notes A (central logs); fault lab F34 (6 of 8 hostile lines invalid without escape=json, none with it); nginx documentation of log_format"
---*/
with rejected as (
  select host, source, count(*) as rejected, max(raw) as sample, max(detail) as detail,
    -- Only lines between the first and the last bad one: an old file read now yields old rows.
    (max(source_offset) - min(source_offset)) / greatest(avg(length(raw)), 1.0) as lines_between
  from reject
  where ts > $now - interval '2 minutes' and ts <= $now and reason = 'invalid_json'
  group by host, source
),
read_lines as (
  select host, source, count(*) as lines, count(*) filter (where repair like '%hex_escape%') as repaired
  from request
  where observed_ts > $now - interval '2 minutes' and observed_ts <= $now and ts > $now - interval '4 minutes' and ts <= $now
  group by host, source
  union all
  select host, source, count(*) as lines, count(*) filter (where repair like '%hex_escape%') as repaired
  from log
  where observed_ts > $now - interval '2 minutes' and observed_ts <= $now and ts > $now - interval '4 minutes' and ts <= $now
  group by host, source
  union all
  select host, source, count(*) as lines, 0 as repaired
  from reject
  where ts > $now - interval '2 minutes' and ts <= $now
  group by host, source
),
counted as (
  select host, source, sum(lines) as lines, sum(repaired) as repaired from read_lines group by host, source
),
sums as (
  select c.host, c.source, c.repaired, r.rejected, r.detail, r.sample,
    greatest(c.lines, cast(coalesce(r.lines_between, 0.0) as bigint)) as lines
  from counted c left join rejected r on r.host = c.host and r.source = c.source
),
formats as (
  select host, file, line, arguments, row_number() over (partition by host order by ts desc, file, line) as place
  from config_directive
  where program = 'nginx' and directive = 'log_format' and ts > $now - interval '2 hours' and ts <= $now
    and arguments not like '%escape=json%' and arguments like '%{%'
)
select s.host, s.source, s.lines, s.repaired, coalesce(s.rejected, 0) as rejected,
  cast(s.repaired + coalesce(s.rejected, 0) as double) / s.lines as share,
  case when s.rejected >= 3 and s.rejected > 0.001 * s.lines then 'mail' else 'note' end as class,
  s.detail, s.sample,
  case when s.sample is null then '' else concat('Example: ', substr(s.sample, 1, 200)) end as sample_text,
  case when f.file is null then '' else concat(f.file, ':', f.line, ': ') end as place
from sums s
left join formats f on f.host = s.host and f.place = 1
where s.repaired + coalesce(s.rejected, 0) >= 3
  and s.repaired + coalesce(s.rejected, 0) > 0.001 * s.lines
