/*---
id = "disk.inodes_full"
title = "Inodes exhausted"
tier = "disk"
class = "mail"
for = "0s"
every = "2s"
clear = "1m"
key = ["mount_point"]
needs = ["filesystem"]
when = "select 1 from filesystem where inodes_total > 0 and inodes_free < 0.06 * inodes_total and not is_read_only and ts > $now - interval '1 minute' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.check_failing", "app.errors", "app.errors_quiet", "app.service_rejects",
  "check.failing", "db.not_answering", "db.server_log", "proxy.bad_gateway", "app.service_hangs",
  "proxy.haproxy_errors",
]
subject = "{mount_point} on {device}"
summary = "{mount_point} ({device}) has {inodes_free} of {inodes_total} inodes free ({free_ratio:%}), and {available_bytes:bytes} of space"
why = "Every file needs an inode, however small, and this file system was created with a fixed number. At 0, programs get \"No space left on device\" although df shows free space: sessions, caches, mail queues and logs fail."
look_at = "Where the many small files are: `du --inodes -xS {mount_point:sh} | sort -n | tail`. Usual ones: PHP sessions, a mail queue, an unbounded cache, files of a job that fails every minute."
silent_when = "At least 5 % free (an open finding resolves at 6 %). Read-only file systems (snap images have 0 free by design), types that allocate inodes as needed (btrfs, xfs, vfat) and overlays, which report the file system below them, are excluded."
fix = "In the directory that the listing names, delete what is expendable, in batches (`find DIRECTORY -xdev -type f -mtime +7 -print0 | xargs -0 -n 1000 rm -f`), and add a retention: systemd-tmpfiles or the program's own. The number of inodes cannot be changed: for many small files create a new file system with `mkfs.ext4 -i 4096`, or xfs. Check: `df -i {mount_point:sh}`. Do not delete below a database's or mail queue's directory by hand."
source = "fault lab F12 (0 inodes free, 25 MB left); statvfs(3) f_ffree; mke2fs(8) -i"
[chart]
title = "Free inodes"
unit = ""
sql = """
select ts, inodes_free from filesystem
where host = {host} and mount_point = {mount_point} and ts > $now - interval '6 hours' and ts <= $now order by ts"""
---*/
with samples as (
  select host, mount_point, device, inodes_total, inodes_free, available_bytes,
    row_number() over (partition by host, mount_point order by ts desc) as place
  from filesystem
  where ts > $now - interval '1 minute' and ts <= $now
    and inodes_total > 0 and not is_read_only
    and filesystem_type not in ('overlay', 'btrfs', 'xfs', 'vfat', 'exfat', 'ntfs3', 'udf', 'squashfs', 'iso9660', 'erofs')
)
select host, mount_point, device, inodes_total, inodes_free, available_bytes,
  cast(inodes_free as double) / inodes_total as free_ratio,
  case when inodes_free = 0 then 'page' else 'mail' end as class,
  inodes_free < 0.05 * inodes_total as opens
from samples
where place = 1 and inodes_free < 0.06 * inodes_total
