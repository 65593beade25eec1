/*---
id = "disk.filesystem_error"
title = "File system reports errors or went down"
tier = "disk"
class = "mail"
for = "0s"
every = "10s"
clear = "10m"
key = ["filesystem_device"]
needs = ["kmsg", "block_device"]
when = "select 1 from kmsg where kind in ('fs_error', 'fs_down', 'directory_full', 'pool_full') and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.errors", "app.errors_quiet", "app.requests_stopped",
  "app.service_rejects", "db.not_answering", "db.server_log", "disk.readonly", "proxy.bad_gateway",
  "app.service_hangs", "proxy.haproxy_errors",
]
subject = "file system on {filesystem_device} of {host}"
summary = "file system on {filesystem_device} of {host} {state_text} ({messages} messages in 10 minutes); last: {body}"
why = "{why_text}{place_text}"
look_at = "All messages of the device, the first ones above all: `dmesg -T | grep -E '{filesystem_device}|XFS|EXT4|BTRFS|device-mapper'`. I/O errors before them (disk.io_error): the disk or volume is the cause. None before them: memory, the kernel or a cut cable."
silent_when = "The kernel logged no error of ext4, XFS, btrfs or their journals, no shut-down, no full directory index and no thin pool out of space within 10 minutes and since weir started. Loop devices are excluded. An error is a mail; a file system that is down, or a pool that is full, is a page."
fix = "{fix_text}"
source = "kernel fs/ext4/super.c, fs/xfs/xfs_fsops.c, fs/btrfs/messages.c, drivers/md/dm-thin.c; node-problem-detector#845, fedora-coreos-tracker#784, raspberrypi/linux#703"
[text.why_text]
down = "XFS shut itself down after an error that it could not undo: each access fails with EIO (5) until it is unmounted and mounted again."
damaged = "The file system found structures that contradict each other, or could not write its journal. Files can be unreadable or lost, and it may become read-only next."
directory = "The index of one directory is full: no new file fits into it (\"No space left on device\"), although blocks and inodes are free. It takes millions of files with long names in one directory."
pool = "The thin pool has no free blocks: writes of all its volumes wait, and fail after 60 s by default, although their file systems have space."
[text.place_text]
mounted = " Mounted there: {mount_points}."
unknown = ""
[text.fix_text]
down = "Copy what the disk still gives, then unmount, mount again (the log is replayed), or `xfs_repair` while it is unmounted. If I/O errors came before: replace the disk or volume first. Check: it is mounted and no new message comes."
damaged = "Take a backup or a snapshot first. At a quiet time unmount it and check it: `e2fsck -f` (ext4), `xfs_repair` (XFS), `btrfs scrub start` (btrfs, mounted). Never check a mounted ext4 or XFS, nor a disk that still reports I/O errors. Check: no new message for a day."
directory = "Find it (`find MOUNT -xdev -type d -size +100M`): sessions, caches or mail queues mostly. Delete what is old, and let the program spread files over subdirectories; `tune2fs -O large_dir` raises the limit (Linux 4.13 or later). Check: creating a file in it succeeds."
pool = "Extend it: `lvextend -L +50G VG/POOL` (`lvs -a -o +data_percent,metadata_percent` shows it), or delete snapshots; `fstrim -a` returns deleted blocks. Set thin_pool_autoextend_threshold = 80 in lvm.conf. Check: data_percent below 80."
---*/
with told as (
  select host, coalesce(subject, 'a device') as filesystem_device, count(*) as messages, max(body) as body,
    count(*) filter (where kind = 'fs_down') as down, count(*) filter (where kind = 'pool_full') as pools,
    count(*) filter (where kind = 'fs_error') as damages
  from kmsg
  where kind in ('fs_error', 'fs_down', 'directory_full', 'pool_full') and is_backlog is not true
    and ts > $now - interval '10 minutes' and ts <= $now
    and not regexp_like(coalesce(subject, ''), '^(loop|zram|sr|fd)[0-9]')
  group by 1, 2
),
places as (
  select host, device, max(mount_points) as mount_points
  from block_device
  where ts > $now - interval '3 minutes' and ts <= $now
  group by host, device
),
states as (
  select *, case when down > 0 then 'down' when pools > 0 then 'pool' when damages > 0 then 'damaged' else 'directory' end as state
  from told
)
select t.host, t.filesystem_device, t.messages, t.body, b.mount_points,
  case t.state when 'down' then 'is shut down' when 'pool' then 'belongs to a pool without space'
    when 'damaged' then 'reports errors' else 'cannot add files to a directory' end as state_text,
  t.state as why_text, t.state as fix_text,
  case when b.mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when t.state in ('down', 'pool') then 'page' else 'mail' end as class
from states t
left join places b on b.host = t.host and b.device = t.filesystem_device
