/*---
id = "disk.full"
title = "Disk full or nearly full"
tier = "disk"
class = "mail"
for = "0s"
every = "2s"
clear = "1m"
key = ["mount_point"]
needs = ["filesystem"]
when = "select 1 from filesystem where size_bytes > 0 and available_bytes < 0.12 * size_bytes and not is_read_only and ts > $now - interval '1 minute' and ts <= $now limit 1"
explains = [
  "app.cannot_write", "app.check_failing", "app.empty_pages", "app.errors", "app.errors_quiet",
  "app.service_rejects", "check.failing", "db.not_answering", "db.server_log", "disk.fill_eta",
  "mysql.replica_broken", "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.retry_storm",
  "slo.burning", "app.service_hangs",
]
subject = "{mount_point} on {device}"
summary = "{mount_point} ({device}) has {available_bytes:bytes} of {size_bytes:bytes} free ({available_ratio:%}); {eta_text}"
why = "Once it is full, programs that write to it fail with ENOSPC: logs are lost, databases stop, uploads break. The figure is the space available to ordinary users, without root's reserve."
look_at = "What grows: `du -xh --max-depth=2 {mount_point:sh} | sort -h | tail`. If du shows less than df, a deleted file is still open: `lsof +L1`."
silent_when = "More than 10 % free; or between 2 and 10 % and not full within 24 hours at the rate of the last hour (a disk may stay 95 % full for years). Read-only file systems (snap, CD images) are always full and are excluded. An open finding resolves at 12 % free."
fix = "Free space without losing data: rotated logs by their own retention (`logrotate -f`, `journalctl --vacuum-size=500M`), package caches (`apt-get clean`), old releases; then set a retention that keeps it so, or grow the volume (`growpart`, `resize2fs` or `xfs_growfs`). Empty a log that is being written with `truncate -s 0 FILE`, do not delete it: its writer keeps a deleted file open. Never delete below a database's directory by hand. Check: available_ratio above 12 % and no longer falling."
source = "fault lab F12; statvfs(3) f_bavail"
[chart]
title = "Free space"
unit = "B"
sql = """
select ts, available_bytes from filesystem
where host = {host} and mount_point = {mount_point} and ts > $now - interval '6 hours' and ts <= $now order by ts"""
---*/
with samples as (
  select host, mount_point, device, size_bytes, available_bytes, is_read_only,
    date_part('epoch', ts) - date_part('epoch', $now) as age,
    row_number() over (partition by host, mount_point order by ts desc) as place
  from filesystem
  where ts > $now - interval '1 hour' and ts <= $now and size_bytes > 0
),
paces as (
  select host, mount_point,
    regr_slope(cast(available_bytes as double), age) as bytes_per_second,
    max(age) - min(age) as span_seconds
  from samples group by host, mount_point
),
newest as (
  select s.*, cast(s.available_bytes as double) / s.size_bytes as available_ratio,
    case when p.span_seconds >= 60 and p.bytes_per_second < 0 then -cast(s.available_bytes as double) / p.bytes_per_second end as eta_seconds,
    p.bytes_per_second
  from samples s join paces p on p.host = s.host and p.mount_point = s.mount_point
  where s.place = 1 and s.age > -60 and not s.is_read_only
)
select host, mount_point, device, size_bytes, available_bytes, available_ratio, bytes_per_second, eta_seconds,
  case
    when available_bytes = 0 then 'it is full now'
    when eta_seconds is null then 'it is not filling'
    when eta_seconds < 7200 then concat('full in ', cast(round(eta_seconds / 60) as bigint), ' min at this rate')
    when eta_seconds < 864000 then concat('full in ', cast(round(eta_seconds / 3600) as bigint), ' h at this rate')
    else 'it fills slowly' end as eta_text,
  case
    when available_ratio < 0.02 or eta_seconds < 14400 then 'page'
    else 'mail' end as class,
  available_ratio < 0.02 or (available_ratio < 0.1 and eta_seconds < 86400) as opens
from newest
where available_ratio < 0.12
