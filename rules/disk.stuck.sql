/*---
id = "disk.stuck"
title = "Disk stalled: requests in flight, none completing"
tier = "disk"
class = "page"
for = "3s"
every = "5s"
clear = "20s"
key = ["device"]
needs = ["disk_stat", "cpu_stat"]
when = "select host from disk_stat where in_flight > 0 and ts > $now - interval '12 seconds' and ts <= $now group by host, device having count(*) >= 10 and max(reads_total + writes_total) - min(reads_total + writes_total) < 90 limit 1"
explains = [
  "app.worker_timeout", "app.workers_exhausted", "app.socket_backlog_full", "proxy.upstream_timeout", "proxy.bad_gateway", "proxy.upstream_errors",
  "app.blocked_on_store", "app.errors", "app.slow", "app.slow_url", "db.connections_exhausted",
  "db.not_answering", "disk.member_outlier", "disk.readonly", "disk.slow", "host.hung_task",
  "mysql.replica_lag", "pg.replica_lag", "proxy.haproxy_queue", "proxy.worker_blocked",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.listen_overflow",
]
subject = "disk {device} of {host}"
summary = "{device} of {host} is stalled: {in_flight} operations in flight for {window_seconds} s, {operations_per_second:.1} completed per second (before: {past_operations_per_second:.0}), {utilisation:%} busy; {blocked:.0} threads blocked"
why = "The device accepts requests and does not complete them: a volume with stalled storage, a dying disk that keeps retrying, a hung controller. Every reader and writer blocks and cannot even be killed; CPU may be idle and iowait 0."
look_at = "`dmesg` for timeouts, resets and I/O errors (disk.io_error), the provider's check of the volume (EBS VolumeStalledIOCheck), SMART (`smartctl -a /dev/{device}`). Which processes: `ps -eo pid,stat,wchan:30,comm | awk '$2 ~ /^D/'`."
silent_when = "Nothing in flight at one of the samples of the last 12 s, 3 IOPS or more, less than 99 % busy, or at least a twentieth of its own past IOPS. Stacked devices (md, dm, loop) are excluded when they only mirror a disk below them. CD drives are excluded. A single operation in flight without a blocked thread does not count: some kernels (4.18 to 5.x) leak one from the counter. It is a mail at first and a page after 30 s: storage that stalls for a moment recovers without help."
fix = "Fail it out of its mirror (`mdadm /dev/mdX --fail /dev/{device}`, only if every other member is in sync), or fail over to the replica. A stalled cloud volume: force-detach and reattach it, or restore its snapshot. If no other copy of the data exists, wait: the kernel gives up after its timeout (nvme_core.io_timeout, 30 s; SCSI 30 s) and the file system then becomes read-only, so stop the database before that. Check: in_flight returns to 0. Do not restart hung processes one by one: they wait in the kernel."
source = "fault lab F42 (1 operation a second, 8 under way, iowait 0); field notes B (the outage of 2011); kernel Documentation/admin-guide/iostats.rst"
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
)
select s.host, s.device, s.window_seconds, s.in_flight, s.operations_per_second, s.utilisation, p.past_operations_per_second, b.blocked,
  case when p.past_operations_per_second is null then b.blocked >= 0.5
       else s.operations_per_second < 0.05 * p.past_operations_per_second end as opens,
  case when s.window_seconds = 30 then 'page' else 'mail' end as class
from stuck s
left join past p on p.host = s.host and p.device = s.device
left join blocked b on b.host = s.host
left join below w on w.host = s.host
where s.place = 1
  and not (s.is_stacked and coalesce(w.disks, 0) > 0)
  and (s.least_in_flight >= 2 or coalesce(b.blocked, 0) >= 0.5)
