/*---
id = "disk.log_shares_data"
title = "Access log shares a file system with the data"
tier = "disk"
class = "note"
for = "0s"
every = "60s"
clear = "3m"
key = ["log_path"]
needs = ["config_directive", "filesystem", "db_server"]
when = "select 1 from config_directive where directive = 'access_log' and ts > $now - interval '2 hours' and ts <= $now limit 1"
subject = "{log_path} of {host}"
summary = "nginx writes {log_path} ({file}:{line}) to {mount_point} ({device}), which also holds {data_text}"
why = "Each request writes a line, and the nginx worker blocks on that write. When the disk is busy with the data, every client waits for the log; when the log grows, the data runs out of space; and a backup that reads the disk slows both."
look_at = "`iostat -x 5` of {device} at the busiest hour, and workers in state D (proxy.worker_blocked). How large do the logs grow between two rotations?"
silent_when = "Log and data are on different file systems, or everything is on `/` or `/var`, as distributions do by default: then no disk was dedicated to the data. Data is what nginx' `root` names and the directory of a database of `[[databases]]` on this host. Logs that are `off`, go to syslog, or have variables or a relative path in their names are not evaluated."
fix = "{file}:{line}: access_log {new_path} {format} buffer=64k flush=1s; then `nginx -t && nginx -s reload`. Safe: lines arrive a second later at most, and only a crash of nginx would lose buffered ones. Afterwards move the old file away, and make sure that logrotate covers the new path. Check: this note is gone."
source = "field notes A (a separate partition for logs); fault lab F36 (log writes throttled to 15 a second: half of all answers took 304 ms instead of 1.6)"
---*/
with newest as (
  select host, file, line, directive, arguments, split_part(arguments, ' ', 1) as path,
    rank() over (partition by host, file order by ts desc) as place
  from config_directive
  where program = 'nginx' and ts > $now - interval '2 hours' and ts <= $now
),
paths as (
  select host, 'log' as kind, path, file, line, arguments, path as shown
  from newest
  where place = 1 and directive = 'access_log' and path like '/%' and path not like '%$%' and path not like '/dev/%'
  union all
  select host, 'data' as kind, path, file, line, arguments, concat('the site in ', path) as shown
  from newest
  where place = 1 and directive = 'root' and path like '/%' and path not like '%$%'
  union all
  select host, 'data' as kind, data_directory as path, '' as file, 0 as line, '' as arguments, concat('the database in ', data_directory) as shown
  from db_server
  where data_directory like '/%' and ts > $now - interval '60 seconds' and ts <= $now
    and (server_address like '/%' or server_address like '127.%' or server_address like 'localhost%')
),
mounts as (
  select host, mount_point, max(device) as device
  from filesystem
  where ts > $now - interval '3 minutes' and ts <= $now
  group by host, mount_point
),
placed as (
  select p.*, m.mount_point, m.device,
    row_number() over (partition by p.host, p.kind, p.path, p.file, p.line order by length(m.mount_point) desc) as rank_
  from paths p
  join mounts m on m.host = p.host
    and (m.mount_point = '/' or p.path = m.mount_point or starts_with(p.path, concat(m.mount_point, '/')))
)
select l.host, l.path as log_path, l.mount_point, l.device, min(l.file) as file, min(l.line) as line, min(d.shown) as data_text,
  concat('/var/log/nginx/', regexp_replace(l.path, '^.*/', '')) as new_path,
  coalesce(min(regexp_match(l.arguments, '^[^ ]+ ([^ =]+)( |$)')[1]), 'combined') as format
from placed l
join placed d on d.host = l.host and d.mount_point = l.mount_point and d.kind = 'data' and d.rank_ = 1
where l.kind = 'log' and l.rank_ = 1 and l.mount_point not in ('/', '/var', '/var/log', '/var/log/nginx')
group by l.host, l.path, l.mount_point, l.device
