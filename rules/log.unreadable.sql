/*---
id = "log.unreadable"
title = "A log that is followed cannot be read"
tier = "log"
class = "mail"
for = "0s"
every = "10s"
clear = "30s"
key = ["source"]
needs = ["ship"]
when = "select 1 from ship where error is not null and ts > $now - interval '65 seconds' and ts <= $now limit 1"
subject = "{source} on {host}"
summary = "{source} is not read by the agent on {host}: {error}"
why = "What is not read is not searched and no rule sees it: everything that depends on this log is blind, and looks well. When the log is deleted before it can be read, its lines are lost for good."
look_at = "`select ts, state, error, position_bytes, size_bytes from ship where source = '{source}' order by ts desc limit 20`: since when, and whether it was ever read."
silent_when = "The newest row of the log has no error, or fewer than three of its rows of the last 65 s (one every 10 s) had: a service that is away for a moment is asked again by itself. It is a note when a file was never read here: an agent without the right to read it may be meant so, and `weir up` says at its start which ones."
fix = "{fix_text} The agent tries again by itself, and reads on where it stopped. Check: error of {source} in the table ship is NULL."
source = "column error of ship (the agent's own attempts); field notes A (a forwarder that was behind and nobody knew)"
[chart]
title = "Bytes that are there, and that are read"
unit = "B"
sql = """
select ts, size_bytes, position_bytes from ship
where source = {source} and host = {host} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select host, source, error, position_bytes,
    -- The file that was renamed may be read to its end while the new one cannot be read.
    rank() over (partition by host, source order by ts desc) as place,
    count(error) over (partition by host, source, stream) as failed
  from ship
  where ts > $now - interval '65 seconds' and ts <= $now
)
select host, source, error,
  case when source like 's3://%' or position_bytes > 0 then 'mail' else 'note' end as class,
  case when source like 's3://%'
    then 'Mend what the error says: is the service up, are `url`, `endpoint` and `region` of `[[buckets]]` right, and may its login list the bucket and get objects (`s3:ListBucket`, `s3:GetObject`)?'
    else 'Let the agent read the file: `ls -l` shows its owner and group (on Debian, `usermod --append --groups adm USER` for the user that the agent runs as, then start it again); a log that is made anew needs the same mode, `create 0640 root adm` in its logrotate.'
  end as fix_text
from looks
where place = 1 and error is not null and failed >= 3
