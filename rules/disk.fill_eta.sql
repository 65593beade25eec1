/*---
id = "disk.fill_eta"
title = "Disk will be full within hours"
tier = "disk"
class = "mail"
for = "5m"
every = "60s"
clear = "5m"
key = ["mount_point"]
needs = ["filesystem"]
when = "select host from filesystem where ts > $now - interval '1 hour' and ts <= $now and size_bytes > 0 group by host, mount_point having max(available_bytes) - min(available_bytes) > 0.05 * max(size_bytes) limit 1"
subject = "{mount_point} on {device}"
summary = "{mount_point} ({device}) fills up in {eta_hours:.1} h: {available_bytes:bytes} of {size_bytes:bytes} free ({available_ratio:%}), {bytes_per_hour:bytes}/h steadily over the last hour"
why = "disk.full fires at 10 % free, which at this rate is too late to act calmly. Something has begun to write without limit: a debug log, a dump, an unconsumed queue, a failed retention job."
look_at = "What grew in the last hour: `find {mount_point:sh} -xdev -type f -mmin -60 -size +50M -printf '%s %p\\n' | sort -n | tail`. When did it begin (chart), and what was deployed or started then?"
silent_when = "It would not be full within 4 hours, less than 12 % is free (disk.full), or the growth of the last hour is not steady: less than 50 minutes of samples, a poor linear fit (r² below 0.9), or the last 10 minutes at less than half the rate. So a backup or compaction of half an hour stays silent. Memory file systems and overlays are excluded."
fix = "Stop or redirect the writer; then limit it: `size`, `rotate` and `maxsize` in /etc/logrotate.d, `SystemMaxUse=` in journald.conf, the retention of the database or queue. Empty a log that is being written with `truncate -s 0 FILE`, do not delete it. Or grow the volume now, while there is time (`growpart`, then `resize2fs` or `xfs_growfs {mount_point:sh}`). Check: bytes_per_hour near 0."
source = "fault lab F12; field notes A (a log partition that filled overnight)"
[chart]
title = "Free space"
unit = "B"
sql = """
select ts, available_bytes from filesystem
where host = {host} and mount_point = {mount_point} and ts > $now - interval '6 hours' and ts <= $now order by ts"""
---*/
with samples as (
  select host, mount_point, device, size_bytes, available_bytes, filesystem_type, is_read_only, ts,
    date_part('epoch', ts) - date_part('epoch', $now) as age
  from filesystem
  where ts > $now - interval '1 hour' and ts <= $now and size_bytes > 0
),
paces as (
  select host, mount_point, max(device) as device, max(size_bytes) as size_bytes, max(filesystem_type) as filesystem_type,
    min(available_bytes) filter (where age > -60) as available_bytes,
    regr_slope(cast(available_bytes as double), age) as slope,
    regr_r2(cast(available_bytes as double), age) as fit,
    regr_slope(cast(available_bytes as double), age) filter (where age > -600) as slope_now,
    max(age) - min(age) as span_seconds
  from samples
  where not is_read_only
  group by host, mount_point
)
select host, mount_point, device, size_bytes, available_bytes, fit,
  cast(available_bytes as double) / size_bytes as available_ratio,
  -slope * 3600 as bytes_per_hour, -available_bytes / slope / 3600 as eta_hours,
  case when -available_bytes / slope < 3600 then 'page' else 'mail' end as class
from paces
where slope < 0 and fit >= 0.9 and slope_now < 0.5 * slope and span_seconds >= 3000
  and available_bytes >= 0.12 * size_bytes and available_bytes / -slope < 14400
  and filesystem_type not in ('tmpfs', 'ramfs', 'overlay')
