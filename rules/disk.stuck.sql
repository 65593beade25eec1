/*---
id = "disk.stuck"
title = "Disk stalled: requests in flight, none completing"
tier = "disk"
class = "page"
for = "3s"
every = "5s"
clear = "20s"
key = ["device"]
needs = ["disk_stat", "cpu_stat", "raid_member", "block_device", "db_server", "filesystem"]
when = "select host from disk_stat where in_flight > 0 and ts > $now - interval '12 seconds' and ts <= $now group by host, device having count(*) >= 10 and max(reads_total + writes_total) - min(reads_total + writes_total) < 90 limit 1"
explains = [
  "app.blocked_on_store", "app.cannot_write", "app.check_failing", "app.errors", "app.errors_quiet",
  "app.health_digest_missing", "app.requests_stopped", "app.service_rejects", "app.slow",
  "app.slow_outlier", "app.slow_quiet", "app.slow_requests_logged", "app.slow_url",
  "app.socket_backlog_full", "app.worker_timeout", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499",
  "db.connections_exhausted", "db.not_answering", "disk.member_outlier", "disk.readonly",
  "disk.slow", "host.hung_task", "mysql.replica_lag", "pg.replica_lag", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.retry_storm", "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_blocked",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "disk {device} of {host}"
summary = "{device} of {host} is stalled: {in_flight} operations in flight for {window_seconds} s, {operations_per_second:.1} completed per second (before: {past_operations_per_second:.0}), {utilisation:%} busy; {blocked:.0} threads blocked"
why = "The device accepts requests and does not complete them: a volume with stalled storage, a dying disk that keeps retrying, a hung controller. Every reader and writer blocks and cannot even be killed; CPU may be idle and iowait 0.{place_text}"
look_at = "`dmesg` for timeouts, resets and I/O errors (disk.io_error), the provider's check of the volume (EBS VolumeStalledIOCheck), SMART (`smartctl -a /dev/{device}`). Which processes: `ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /^D/'`."
silent_when = "Nothing in flight at one of the samples of the last 12 s, 3 IOPS or more, less than 99 % busy, or at least a twentieth of its own past IOPS. Stacked devices (md, dm, loop) are excluded when they only mirror a disk below them. CD drives are excluded. A single operation in flight without a blocked thread does not count: some kernels (4.18 to 5.x) leak one from the counter. It is a mail at first and a page after 30 s: storage that stalls for a moment recovers without help."
fix = "{member_text}, or fail over to the replica. A stalled cloud volume: force-detach and reattach it, or restore its snapshot. If no other copy of the data exists, wait: the kernel gives up after its timeout (nvme_core.io_timeout, 30 s; SCSI 30 s) and the file system then becomes read-only, so stop the database before that. Check: in_flight returns to 0. Do not restart hung processes one by one: they wait in the kernel."
source = "fault lab F42 (1 operation a second, 8 under way, iowait 0); field notes B (the outage of 2011); kernel Documentation/admin-guide/iostats.rst"
[text.place_text]
database = " On it: {databases} ({mount_points})."
mounted = " On it: {mount_points}."
unknown = ""
[text.member_text]
array = "Fail it out of its array (`mdadm /dev/{array} --fail /dev/{member}`, only if that is a mirror and every other member is in sync; then read `/sys/block/{array}/md/dev-{member}/state`)"
unknown = "Fail it out of its mirror (`mdadm /dev/mdX --fail /dev/{device}`, only if every other member is in sync)"
[chart]
title = "Operations completed since boot, and in flight"
unit = ""
sql = """
select ts, in_flight from disk_stat
where host = {host} and device = {device} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with windows as (
  select 30 as window_seconds, host, device, ts, in_flight, reads_total + writes_total as total, busy_seconds_total
  from disk_stat
  where ts > $now - interval '30 seconds' and ts <= $now and not is_partition
  union all
  select 12 as window_seconds, host, device, ts, in_flight, reads_total + writes_total as total, busy_seconds_total
  from disk_stat
  where ts > $now - interval '12 seconds' and ts <= $now and not is_partition
),
recent as (
  select window_seconds, host, device,
    min(in_flight) as least_in_flight, max(in_flight) as in_flight,
    max(total) - min(total) as done,
    max(busy_seconds_total) - min(busy_seconds_total) as busy,
    date_part('epoch', max(ts)) - date_part('epoch', min(ts)) as span_seconds,
    count(*) as samples
  from windows
  group by window_seconds, host, device
),
stuck as (
  select *, done / span_seconds as operations_per_second, busy / span_seconds as utilisation,
    regexp_like(device, '^(dm-|md|loop|drbd|bcache)') as is_stacked,
    row_number() over (partition by host, device order by window_seconds desc) as place
  from recent
  where least_in_flight > 0 and span_seconds >= 0.8 * window_seconds and samples >= 10 and done < 3 * span_seconds and busy >= 0.99 * span_seconds
    and not regexp_like(device, '^(sr|fd|st|zram|ram|nbd)')
),
past_rows as (
  select 1 as slice, host, device, reads_total + writes_total as total, ts from disk_stat
  where ts > $now - interval '6 minutes' and ts <= $now - interval '5 minutes' and not is_partition
  union all
  select 2 as slice, host, device, reads_total + writes_total as total, ts from disk_stat
  where ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes' and not is_partition
),
past_slices as (
  select slice, host, device, (max(total) - min(total)) / greatest(date_part('epoch', max(ts)) - date_part('epoch', min(ts)), 1) as rate
  from past_rows
  group by slice, host, device
),
past as (
  select host, device, max(rate) as past_operations_per_second from past_slices group by host, device
),
blocked as (
  select host, avg(processes_blocked) as blocked
  from cpu_stat
  where cpu = 'all' and ts > $now - interval '12 seconds' and ts <= $now
  group by host
),
below as (
  select host, count(*) as disks from stuck where place = 1 and not is_stacked group by host
),
places as (
  select host, device, max(arrays) as arrays, max(mount_points) as mount_points
  from block_device
  where ts > $now - interval '3 minutes' and ts <= $now
  group by host, device
),
member_disk as (
  select host, disk, min(array) as array, min(device) as member
  from raid_member
  where ts > $now - interval '40 seconds' and ts <= $now and slot is not null
  group by host, disk
),
homes as (
  select host, system, data_directory
  from db_server
  where ts > $now - interval '60 seconds' and ts <= $now and data_directory is not null
    and (server_address like '/%' or server_address like '127.%' or server_address like 'localhost%' or server_address like '[::1]%')
  group by host, system, data_directory
),
home_mounts as (
  select h.host, h.system, h.data_directory, f.mount_point,
    row_number() over (partition by h.host, h.data_directory order by length(f.mount_point) desc, f.ts desc) as place
  from homes h
  join filesystem f on f.host = h.host
  where f.ts > $now - interval '3 minutes' and f.ts <= $now
    and (f.mount_point = '/' or h.data_directory = f.mount_point or starts_with(h.data_directory, concat(f.mount_point, '/')))
),
home_disks as (
  select p.host, p.device, string_agg(concat(m.system, ' in ', m.data_directory), ', ' order by m.data_directory) as databases
  from places p
  join home_mounts m on m.host = p.host and m.place = 1 and strpos(concat(' ', p.mount_points, ' '), concat(' ', m.mount_point, ' ')) > 0
  group by p.host, p.device
)
select s.host, s.device, s.window_seconds, s.in_flight, s.operations_per_second, s.utilisation, p.past_operations_per_second, b.blocked,
  m.array, m.member, o.mount_points, d.databases,
  case when d.databases is not null then 'database' when o.mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when m.array is not null then 'array' else 'unknown' end as member_text,
  case when p.past_operations_per_second is null then b.blocked >= 0.5
       else s.operations_per_second < 0.05 * p.past_operations_per_second end as opens,
  case when s.window_seconds = 30 then 'page' else 'mail' end as class
from stuck s
left join past p on p.host = s.host and p.device = s.device
left join blocked b on b.host = s.host
left join places o on o.host = s.host and o.device = s.device
left join home_disks d on d.host = s.host and d.device = s.device
left join member_disk m on m.host = s.host and m.disk = s.device
left join below w on w.host = s.host
where s.place = 1
  and not (s.is_stacked and coalesce(w.disks, 0) > 0)
  and (s.least_in_flight >= 2 or coalesce(b.blocked, 0) >= 0.5)
