/*---
id = "disk.readonly"
title = "File system became read-only"
tier = "disk"
class = "page"
for = "0s"
every = "10s"
clear = "30s"
key = ["mount_point"]
needs = ["filesystem", "kmsg"]
when = "select 1 from filesystem where is_read_only and ts > $now - interval '1 minute' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.check_failing", "app.errors", "app.errors_quiet", "app.service_rejects",
  "check.failing", "db.not_answering", "db.server_log", "mysql.replica_broken", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.retry_storm", "slo.burning", "app.service_hangs",
]
subject = "{mount_point} on {device}"
summary = "{mount_point} ({device}) on {host} became read-only; {said_text}"
why = "The kernel met an error of the disk or in the file system's own data and stopped writing to prevent further damage. Programs fail with \"Read-only file system\": databases stop, logs and uploads are lost."
look_at = "`dmesg | grep -iE 'error|{device}'` for the first error, `smartctl -a` of the disk below, disk.io_error and disk.stuck around that time. Is it the file system's data (one file system) or the disk (all file systems on it)?"
silent_when = "It was never writable within the last 24 hours (images, snaps and intentional read-only mounts), and the kernel did not log a remount within 10 minutes. A file system that a person remounts read-only on purpose looks the same: remount it writable, or wait a day."
fix = "Fail over to the replica first. Then, with the services stopped: `umount {mount_point:sh}`, `fsck -f {device}` (xfs: `xfs_repair {device}`), and only when that is clean `mount {mount_point:sh}`. If the disk reported errors, copy the data to another one before fsck. For the root file system, boot a rescue system. Check: `touch` works and the kernel logs nothing new. Do not just `mount -o remount,rw`: it writes to data that is known to be damaged."
source = "ext4(5), errors=remount-ro; kernel fs/ext4/super.c; field notes B (EIO after a stalled volume)"
---*/
with now_ as (
  select host, mount_point, device, filesystem_type,
    row_number() over (partition by host, mount_point order by ts desc) as place, is_read_only
  from filesystem
  where ts > $now - interval '1 minute' and ts <= $now
),
past_rows as (
  select host, mount_point from filesystem
  where not is_read_only and ts > $now - interval '15 minutes' and ts <= $now
  union all
  select host, mount_point from filesystem
  where not is_read_only and ts > $now - interval '62 minutes' and ts <= $now - interval '60 minutes'
  union all
  select host, mount_point from filesystem
  where not is_read_only and ts > $now - interval '362 minutes' and ts <= $now - interval '360 minutes'
  union all
  select host, mount_point from filesystem
  where not is_read_only and ts > $now - interval '24 hours' and ts <= $now - interval '1438 minutes'
),
was_writable as (
  select host, mount_point, count(*) as samples from past_rows group by host, mount_point
),
told as (
  select host, subject, max(body) as body
  from kmsg
  where kind = 'readonly_remount' and ts > $now - interval '10 minutes' and ts <= $now
  group by host, subject
)
select n.host, n.mount_point, n.device, n.filesystem_type,
  case when t.body is not null then concat('kernel: ', t.body) else 'no kernel message seen' end as said_text
from now_ n
left join was_writable w on w.host = n.host and w.mount_point = n.mount_point
left join told t on t.host = n.host and (n.device = concat('/dev/', t.subject) or n.device = t.subject)
where n.place = 1 and n.is_read_only and (w.samples > 0 or t.body is not null)
