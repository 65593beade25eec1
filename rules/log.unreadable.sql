/*---
id = "log.unreadable"
title = "Followed log cannot be read"
tier = "log"
class = "mail"
for = "0s"
every = "10s"
clear = "30s"
key = ["source"]
needs = ["ship"]
when = "select 1 from ship where error is not null and ts > $now - interval '65 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped", "log.ship_lag"]
subject = "{source} on {host}"
summary = "the agent on {host} cannot read {source}: {error}"
why = "Unread lines are invisible to searches and rules: everything that depends on this log is blind and appears healthy. If the log is deleted before it can be read, its lines are lost for good."
look_at = "`select ts, state, error, position_bytes, size_bytes from ship where source = '{source}' order by ts desc limit 20`: since when, and was it ever read?"
silent_when = "The log's newest row has no error, or fewer than three of its rows of the last 65 s (one every 10 s) had one: a brief outage of a service is retried. It is a note when the file was never read here: an agent without permission may be intended, and `weir up` lists such files at its start."
fix = "{fix_text} The agent retries and resumes where it stopped. Check: error of {source} in the table ship is NULL."
source = "column error of ship (the agent's own attempts); field notes A (a forwarder lagged unnoticed)"
[text.fix_text]
bucket = "Fix what the error names: is the service up, are `url`, `endpoint` and `region` of `[[buckets]]` right, and does its login have the permissions to list the bucket and get objects (`s3:ListBucket`, `s3:GetObject`)?"
file = "Let the agent read the file: `ls -l` shows its owner and group (on Debian, `usermod --append --groups adm USER` for the agent's user, then restart it); a newly created log needs the same mode, `create 0640 root adm` in its logrotate."
[chart]
title = "Bytes present and bytes read"
unit = "B"
sql = """
select ts, size_bytes, position_bytes from ship
where source = {source} and host = {host} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select host, source, error, position_bytes,
    -- The renamed file may be read to its end while the new one is unreadable.
    rank() over (partition by host, source order by ts desc) as place,
    count(error) over (partition by host, source, stream) as failed
  from ship
  where ts > $now - interval '65 seconds' and ts <= $now
)
select host, source, error,
  case when source like 's3://%' or position_bytes > 0 then 'mail' else 'note' end as class,
  case when source like 's3://%'
    then 'bucket'
    else 'file'
  end as fix_text
from looks
where place = 1 and error is not null and failed >= 3
