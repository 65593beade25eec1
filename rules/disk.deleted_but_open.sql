/*---
id = "disk.deleted_but_open"
title = "Deleted files that are still open take room on a disk"
tier = "disk"
class = "mail"
for = "0s"
every = "5s"
clear = "3m"
key = ["mount_point"]
needs = ["deleted_file", "filesystem"]
when = "select 1 from deleted_file where mount_point is not null and ts > $now - interval '3 minutes' and ts <= $now limit 1"
subject = "{mount_point} of {host}"
summary = "{used_bytes:bytes} of {mount_point} on {host} ({used_ratio:%} of it) belong to {files} deleted files that are still open, most of it {path} of {process_name} (process {process_id}, descriptor {descriptor}); {available_bytes:bytes} are left"
why = "A deleted file's room is free only when the last process closes it. `du` does not see it, `df` does, and it grows on when it is a log: removing it freed nothing, and its lines go where nobody can read them."
look_at = "`ls -l /proc/{process_id}/fd/{descriptor}` and `lsof +L1`. A log: was it removed by hand or by a logrotate without `postrotate`? A database's or a browser's temporary file is deleted on purpose and goes by itself."
silent_when = "Less than 5 % of the file system and less than 1 MiB a file. Files in memory (memfd, /dev/shm, tmpfs). weir looks at most every 10 s, more rarely on hosts with very many descriptors."
fix = "{fix_text} Check: `df {mount_point}` shows the room, and the table deleted_file no longer has the file."
source = "fault lab F12 (df and du differ); proc_pid_fd(5), unlink(2)"
[chart]
title = "Room of deleted files"
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
)
select f.host, f.mount_point, f.files, f.process_id, f.process_name, f.descriptor, f.path, f.sum_bytes as used_bytes,
  r.size_bytes, r.available_bytes, cast(f.sum_bytes as double) / r.size_bytes as used_ratio,
  case when r.available_bytes < 0.02 * r.size_bytes then 'page' else 'mail' end as class,
  case
    when f.process_name = 'nginx' then 'Let it open its logs anew: `nginx -s reopen`; safe at any time. Then mend the rotation: logrotate''s `postrotate` must send USR1 (`kill -USR1 $(cat /run/nginx.pid)`).'
    when f.process_name in ('apache2', 'httpd') then 'Let it open its logs anew: `apachectl graceful`. Then mend the rotation: logrotate''s `postrotate` must reload it.'
    when f.process_name in ('rsyslogd', 'syslog-ng') then concat('Let it open its logs anew: `systemctl kill -s HUP ', f.process_name, '`. Then mend the rotation: its `postrotate` must do that.')
    else concat('Let ', f.process_name, ' close it: reload or restart it, as its rotation should (`postrotate` in /etc/logrotate.d, or `copytruncate` for a program that cannot reopen). If it must not be restarted now and the file is a log, this gives the room back at once: `truncate -s 0 /proc/', f.process_id, '/fd/', f.descriptor, '`. Never do that to a database''s file.')
  end as fix_text
from files f
join room r on r.host = f.host and r.mount_point = f.mount_point and r.place = 1
where f.place = 1 and r.filesystem_type not in ('tmpfs', 'ramfs') and f.sum_bytes > 0.05 * r.size_bytes
