/*---
id = "disk.io_error"
title = "Disk I/O errors"
tier = "disk"
class = "mail"
for = "0s"
every = "10s"
clear = "5m"
key = ["device"]
needs = ["kmsg", "raid_member", "block_device"]
when = "select 1 from kmsg where kind in ('io_error', 'disk_timeout') and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.requests_stopped", "app.service_rejects", "db.server_log",
  "disk.filesystem_error", "disk.readonly", "disk.stuck", "host.hung_task", "proxy.worker_blocked",
]
subject = "disk {device} of {host}"
summary = "disk {device} of {host}: {errors} I/O errors{late_text} in 10 minutes, last: {body}"
why = "{why_text}{place_text}"
look_at = "`smartctl -a /dev/{device}` (Reallocated, Pending, CRC: the last one means the cable), `dmesg -T | grep {device}`: always the same sector or many? The provider's page for the volume. Filesystem findings of this host (disk.readonly)."
silent_when = "The kernel reported none, and no command that timed out, within 10 minutes. CD and floppy drives, loop devices and network block devices are excluded: they report errors when their medium or server goes away. It becomes a page from 10 errors on; the kernel limits the number of lines it logs."
fix = "Copy data that has no other copy, now. {member_text} Cloud volume: make a snapshot and a new volume from it. CRC errors only: the cable. Check: no new line for a day, and a full read (`mdadm --action=check` or `smartctl -t long`) without errors. Do not run fsck on a disk that still reports errors: copy first."
source = "kernel block/blk-core.c, blk_print_req_error; drivers/nvme/host/pci.c, nvme_timeout; drivers/ata/libata-eh.c; field notes B; hotsos#368, openzfs/zfs#7877, propolis#578"
[text.why_text]
lost = "A block could not be read or written after the driver's retries. Its data is lost unless another copy exists, the file system may become read-only next, and disks with such errors seldom recover."
late = "The disk did not answer commands in time (30 s by default), so the driver aborts them and resets it. Whatever reads or writes stands still meanwhile; after some resets the kernel drops the disk."
[text.place_text]
mounted = " On it: {mount_points}."
unknown = ""
[text.member_text]
array = "It is in array {array}: `mdadm /dev/{array} --fail /dev/{member} --remove /dev/{member}`, only if every other member is in sync, and replace the disk."
unknown = "In an array: `mdadm /dev/mdX --fail /dev/{device} --remove /dev/{device}`, only if every other member is in sync, and replace the disk."
---*/
with errors as (
  -- The kernel names the NVMe controller (nvme0); its first namespace is the disk (nvme0n1).
  select host, case when regexp_like(subject, '^nvme[0-9]+$') then concat(subject, 'n1') else subject end as device,
    count(*) as errors, count(*) filter (where kind = 'disk_timeout') as timeouts, max(body) as body
  from kmsg
  where kind in ('io_error', 'disk_timeout') and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now
    and subject is not null and not regexp_like(subject, '^(sr|fd|loop|nbd|rbd|zram)[0-9]')
  group by 1, 2
),
places as (
  select host, device, max(mount_points) as mount_points
  from block_device
  where ts > $now - interval '3 minutes' and ts <= $now
  group by host, device
),
member_disk as (
  select host, disk, min(array) as array, min(device) as member
  from raid_member
  where ts > $now - interval '40 seconds' and ts <= $now
  group by host, disk
)
select e.host, e.device, e.errors, e.timeouts, e.body, m.array, m.member, b.mount_points,
  case when e.timeouts = e.errors then 'late' else 'lost' end as why_text,
  case when e.timeouts > 0 then concat(' (', e.timeouts, ' of them commands without an answer)') else '' end as late_text,
  case when b.mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when m.array is not null then 'array' else 'unknown' end as member_text,
  case when e.errors >= 10 then 'page' else 'mail' end as class
from errors e
left join places b on b.host = e.host and b.device = e.device
left join member_disk m on m.host = e.host and m.disk = e.device
