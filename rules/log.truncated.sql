/*---
id = "log.truncated"
title = "Log truncated before it was read: lines lost"
tier = "log"
class = "mail"
for = "0s"
every = "10s"
clear = "600s"
key = ["source"]
needs = ["ship"]
when = "select 1 from ship where lost_bytes > 0 and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "{source} on {host}"
summary = "{source} on {host} was truncated {times} times in 10 minutes: at least {lost_bytes} bytes were never read"
why = "These lines no longer exist anywhere. Counts, rates and every finding about this log are too low for that moment, and only this finding shows it."
look_at = "How the file is rotated: /etc/logrotate.d (`copytruncate` copies and then truncates; what is written in between is in neither file), a `>` in a cron job, a program that opens its log with truncation. `select * from ship where lost_bytes > 0`."
silent_when = "No byte known to be in the file was lost: truncation of a fully read file, or of one whose copy beside it still holds the rest, is only logged in `log` (source weir:tail). Bytes written and truncated between two polls of the agent (0.1 s) cannot be counted."
fix = "Rotate by renaming, so that the old file stays until it is read: in /etc/logrotate.d replace `copytruncate` by `create` and make the program reopen its log (nginx: `postrotate kill -USR1 $(cat /run/nginx.pid)`; others: their signal or a restart), with `delaycompress`. Check: the next rotation shows no lost_bytes in `ship`."
source = "logrotate(8) on copytruncate; peers: data loss with copytruncate in every forwarder's issue list"
---*/
select host, source, sum(lost_bytes) as lost_bytes, count(*) as times
from ship
where lost_bytes > 0 and ts > $now - interval '10 minutes' and ts <= $now
group by host, source
