/*---
id = "log.rotated_unfinished"
title = "Rotated log not fully read, or deleted while written"
tier = "log"
class = "mail"
for = "12s"
every = "5s"
clear = "30s"
key = ["source", "kind"]
needs = ["ship"]
when = "select 1 from ship where ((state = 'rotated' and lag_seconds > 120) or deleted_bytes > 0) and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = ["app.requests_stopped"]
subject = "{source} on {host}"
summary = "{text}"
why = "A rotated file will be deleted by the next rotation or a cleanup job, and what was not read by then is lost. A deleted file that a program still writes to is worse: only that program and weir see its lines, and its space is freed only when the program closes it."
look_at = "`select ts, state, lag_bytes, lag_seconds, deleted_bytes from ship where source = …`. Which process has the deleted file open: `lsof +L1`, or `ls -l /proc/*/fd | grep deleted`."
silent_when = "The rest of the rotated file was read within two minutes; a program switched to the new file of that name within 12 s and stopped writing to the deleted one."
fix = "{fix_text}"
source = "logrotate(8), postrotate and delaycompress; nginx signal USR1; fault lab F15"
[text.fix_text]
unread = "Keep the rotated file until it is read: `delaycompress` and a `rotate` count above 1 in /etc/logrotate.d; then fix what slows the agent (see log.ship_lag). Check: the finding resolves once the file is fully read."
deleted = "Make the program reopen its log: `kill -USR1` for nginx, a reload or restart for others; add it to `postrotate` for the next rotation. Check: `lsof +L1` no longer lists the file."
[text.text]
unread = "rotated {source} on {host} has {size} bytes not yet stored by the hub, the oldest for {seconds:.0} s"
deleted = "a program still writes to deleted {source} on {host} ({size} bytes)"
---*/
with rotated as (
  select host, source, 'unread' as kind, max(lag_bytes) as size, max(lag_seconds) as seconds
  from ship
  where state = 'rotated' and ts > $now - interval '30 seconds' and ts <= $now
  group by host, source
  having min(lag_seconds) > 120
),
deleted as (
  select d.host, d.source, 'deleted' as kind, max(d.deleted_bytes) as size, cast(0 as double) as seconds
  from ship d
  left join ship n on n.host = d.host and n.source = d.source and n.stream <> d.stream and n.state = 'reading' and n.size_bytes > 0
    and n.ts > $now - interval '6 minutes' and n.ts <= $now
  where d.deleted_bytes > 0 and d.ts > $now - interval '6 minutes' and d.ts <= $now
  group by d.host, d.source
  having max(n.ts) is null or max(n.ts) <= max(d.ts)
)
select host, source, kind, size, seconds,
  kind as text, kind as fix_text
from (select * from rotated union all select * from deleted)
