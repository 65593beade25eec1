/*---
id = "disk.file_server_silent"
title = "File server (NFS, SMB) does not answer"
tier = "disk"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["file_server"]
needs = ["kmsg"]
when = "select 1 from kmsg where kind = 'server_silent' and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.requests_stopped", "app.slow", "app.slow_quiet", "app.lock_pileup", "app.workers_exhausted",
  "host.hung_task", "proxy.bad_gateway", "proxy.upstream_timeout", "proxy.worker_blocked",
  "tcp.accept_queue_high", "tcp.listen_overflow", "unix.accept_queue_full", "proxy.upstream_hangs",
]
subject = "file server {file_server} of {host}"
summary = "file server {file_server} does not answer {host} ({messages} messages in 10 minutes){over_text}; last: {body}"
why = "A process that touches the mount waits in the kernel until the server answers and cannot be killed meanwhile. Workers that read templates, uploads or sessions from it are used up one after the other, and even `df` and logins hang."
look_at = "Which mounts are its: `grep {file_server:sh} /proc/mounts` (not `df`: it hangs too). Can it be reached: `ping {file_server:sh}`, `nc -vz {file_server:sh} 2049` (SMB: 445). On the server: its load, disks and the number of its threads (`/proc/net/rpc/nfsd`, line `th`). Other clients: one or all?"
silent_when = "The kernel logged no `server … not responding` within 10 minutes and since weir started, or logged `server … OK` after the last one 60 s ago or more. After an OK it is a note. The kernel says so only after the mount's time limit (60 s for NFS over TCP), so requests hang before."
fix = "Restore the server or the network path to it; blocked processes then continue without a restart. If it cannot be restored: `umount -f -l MOUNT`, then restart the programs that wait. Later: keep what each request needs off the mount, or mount with `soft,timeo=50,retrans=2` where an error is better than waiting (reads only: soft mounts can lose writes). Check: `nfs: server {file_server} OK` in the kernel's log, and `processes_blocked` of cpu_stat back to normal."
source = "kernel net/sunrpc/clnt.c, rpc_check_timeout; fs/smb/client/connect.c; nfs(5); nfs-ganesha#1295"
---*/
with told as (
  select host, subject as file_server,
    count(*) filter (where kind = 'server_silent') as messages,
    max(ts) filter (where kind = 'server_silent') as silent_ts,
    max(ts) filter (where kind = 'server_back') as back_ts,
    max(body) filter (where kind = 'server_silent') as body
  from kmsg
  where kind in ('server_silent', 'server_back') and subject is not null and is_backlog is not true
    and ts > $now - interval '10 minutes' and ts <= $now
  group by host, subject
)
select host, file_server, messages, body,
  case when back_ts > silent_ts then concat('; it answered again after ', cast(round(date_part('epoch', back_ts) - date_part('epoch', silent_ts)) as bigint), ' s') else '' end as over_text,
  case when back_ts > silent_ts then 'note' else 'mail' end as class
from told
where messages > 0 and (back_ts is null or back_ts < silent_ts or back_ts > $now - interval '60 seconds')
