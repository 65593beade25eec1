/*---
id = "disk.deleted_but_open"
title = "Deleted files still hold disk space"
tier = "disk"
class = "mail"
for = "0s"
every = "5s"
clear = "30s"
key = ["mount_point"]
needs = ["deleted_file", "filesystem"]
when = "select 1 from deleted_file where mount_point is not null and ts > $now - interval '3 minutes' and ts <= $now limit 1"
explains = ["disk.full"]
subject = "{mount_point} of {host}"
summary = "deleted files hold {used_bytes:bytes} of {mount_point} on {host} ({used_ratio:%}): {files} open, most of it {path} of {process_name} (process {process_id}, descriptor {descriptor}); {available_bytes:bytes} free"
why = "A deleted file's space is freed only when the last process closes it. `du` does not count it, `df` does. If it is a log, it keeps growing: deleting it freed nothing, and its lines can no longer be read."
look_at = "`ls -l /proc/{process_id}/fd/{descriptor}` and `lsof +L1`. A log: was it deleted by hand or by a logrotate without `postrotate`? A temporary file of a database or browser is deleted on purpose and goes away without action."
silent_when = "Less than 5 % of the file system or less than 1 MiB a file. Files in memory (memfd, /dev/shm, tmpfs). Space that came back since the newest scan: 90 % of what the files held. weir scans at most every 10 s, less often on hosts with very many descriptors."
fix = "{fix_text} Check: `df {mount_point:sh}` shows the free space, and the table deleted_file no longer lists the file."
source = "fault lab F12 (df and du differ); proc_pid_fd(5), unlink(2)"
[text.fix_text]
nginx = "Make it reopen its logs: `nginx -s reopen`; safe at any time. Then fix the rotation: logrotate's `postrotate` must send USR1 (`kill -USR1 $(cat /run/nginx.pid)`)."
apache = "Make it reopen its logs: `apachectl graceful`. Then fix the rotation: logrotate's `postrotate` must reload it."
syslog = "Make it reopen its logs: `systemctl kill -s HUP {process_name:sh}`. Then fix the rotation: its `postrotate` must do that."
other = "Make {process_name} close it: reload or restart it, as its rotation should (`postrotate` in /etc/logrotate.d, or `copytruncate` for a program that cannot reopen). If it must not be restarted now and the file is a log, this frees the space at once: `truncate -s 0 /proc/{process_id}/fd/{descriptor}`. Never do that to a database's file."
[chart]
title = "Space held by deleted files"
unit = "B"
sql = """
select ts, sum(used_bytes) as used_bytes from deleted_file
where host = {host} and mount_point = {mount_point} and ts > $now - interval '6 hours' and ts <= $now group by ts order by ts"""
---*/
with looks as (
  select host, max(ts) as newest from deleted_file where ts > $now - interval '3 minutes' and ts <= $now group by host
),
files as (
  select d.host, d.mount_point, d.process_id, d.process_name, d.descriptor, d.path, d.used_bytes,
    row_number() over (partition by d.host, d.mount_point order by d.used_bytes desc) as place,
    sum(d.used_bytes) over (partition by d.host, d.mount_point) as sum_bytes,
    count(*) over (partition by d.host, d.mount_point) as files
  from deleted_file d join looks l on l.host = d.host and l.newest = d.ts
  where d.ts > $now - interval '3 minutes' and d.ts <= $now and d.mount_point is not null
),
room as (
  select host, mount_point, size_bytes, available_bytes, filesystem_type,
    row_number() over (partition by host, mount_point order by ts desc) as place
  from filesystem
  where ts > $now - interval '1 minute' and ts <= $now and size_bytes > 0
),
-- A scan without such files writes no row, so what was closed shows in the space first.
room_then as (
  select s.host, s.mount_point, s.available_bytes,
    row_number() over (partition by s.host, s.mount_point order by s.ts desc) as place
  from filesystem s join looks l on l.host = s.host
  where s.ts > $now - interval '4 minutes' and s.ts <= l.newest
)
select f.host, f.mount_point, f.files, f.process_id, f.process_name, f.descriptor, f.path, f.sum_bytes as used_bytes,
  r.size_bytes, r.available_bytes, cast(f.sum_bytes as double) / r.size_bytes as used_ratio,
  case when r.available_bytes < 0.02 * r.size_bytes then 'page' else 'mail' end as class,
  case
    when f.process_name = 'nginx' then 'nginx'
    when f.process_name in ('apache2', 'httpd') then 'apache'
    when f.process_name in ('rsyslogd', 'syslog-ng') then 'syslog'
    else 'other'
  end as fix_text
from files f
join room r on r.host = f.host and r.mount_point = f.mount_point and r.place = 1
left join room_then b on b.host = f.host and b.mount_point = f.mount_point and b.place = 1
where f.place = 1 and coalesce(r.available_bytes - b.available_bytes, 0) < 0.9 * f.sum_bytes
  and r.filesystem_type not in ('tmpfs', 'ramfs') and f.sum_bytes > 0.05 * r.size_bytes
