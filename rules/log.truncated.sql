/*---
id = "log.truncated"
title = "Lines of a log are lost: it was cut or deleted before they were read"
tier = "log"
class = "mail"
for = "0s"
every = "10s"
clear = "600s"
key = ["source"]
needs = ["ship"]
when = "select 1 from ship where lost_bytes > 0 and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "{source} on {host}"
summary = "{source} on {host} was cut {times} times in 10 minutes: at least {lost_bytes} bytes were never read"
why = "These lines exist nowhere any more. Counts, rates and every finding about this log are too low for that moment, and nothing in the tables shows it but this."
look_at = "How the file is rotated: /etc/logrotate.d (`copytruncate` copies and then cuts, and what is written in between is in neither file), a `>` in a cron job, a program that opens its log for writing from the start. `select * from ship where lost_bytes > 0`."
silent_when = "No byte that was seen in the file was lost: a cut of a file that was read to its end, or whose copy beside it still holds the rest, is only told in `log` (source weir:tail). Bytes written and cut between two looks of the agent (0.1 s) cannot be counted."
fix = "Rotate by renaming, so that the old file stays until it is read: in /etc/logrotate.d replace `copytruncate` by `create` and tell the program to open its log again (nginx: `postrotate kill -USR1 $(cat /run/nginx.pid)`; others: their signal or a restart), with `delaycompress`. Check: the next rotation shows no lost_bytes in `ship`."
source = "logrotate(8) on copytruncate; peers: data loss with copytruncate in every forwarder's issue list"
---*/
select host, source, sum(lost_bytes) as lost_bytes, count(*) as times
from ship
where lost_bytes > 0 and ts > $now - interval '10 minutes' and ts <= $now
group by host, source
