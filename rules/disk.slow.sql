/*---
id = "disk.slow"
title = "Disk latency far above its own baseline"
tier = "disk"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["device"]
needs = ["disk_stat", "raid_member", "block_device", "db_server", "filesystem"]
when = [
  "select 1 from disk_stat where in_flight > 0 and ts > $now - interval '20 seconds' and ts <= $now limit 1",
  "select 1 from disk_stat where ts > $now - interval '20 seconds' and ts <= $now and not is_partition group by host, device having max(busy_seconds_total) - min(busy_seconds_total) > 2.5 and max(read_seconds_total + write_seconds_total) - min(read_seconds_total + write_seconds_total) >= 0.1 limit 1",
]
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.service_rejects", "app.slow",
  "app.slow_outlier", "app.slow_quiet", "app.slow_requests_logged", "app.slow_url",
  "app.socket_backlog_full", "app.worker_timeout", "app.lock_pileup", "app.workers_exhausted", "client.aborts_499",
  "db.connections_exhausted", "db.not_answering", "host.hung_task", "mysql.replica_lag",
  "pg.replica_lag", "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow",
  "proxy.retry_amplification", "proxy.upstream_timeout", "proxy.worker_blocked",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "disk {device} of {host}"
summary = "{device} of {host} is {times:.0}× slower than its baseline: await {await_seconds:duration} vs {past_await_seconds:duration}, queue {queue:.1}, {utilisation:%} busy, {operations_per_second:.0} IOPS (before: {past_operations_per_second:.0})"
why = "Operations wait longer although there are not more of them, so the device itself has become slow: a faulty or throttled volume, a noisy neighbour, a rebuild. Everything above it waits too: databases, applications that log synchronously, and in the end clients.{place_text}"
look_at = "Other disks of the same host: a single slow one points to that volume. `dmesg` for I/O errors, the provider's volume metrics (burst credit, throughput limit), `/proc/mdstat` for a rebuild."
silent_when = "Less than 3× its own average of the last hour (6× with less than a minute of history), below 20 ms, a queue below one operation on average, or at least twice the load (then it is load, not the disk). Needs at least 15 s of history. I/O throttled by a cgroup limit waits above the device and is invisible here."
fix = "Replace or relieve it: {member_text}, move the volume, buy more IOPS, stop a rebuild or backup for the day (`/proc/sys/dev/raid/speed_limit_max`). Check: await back at its baseline. Do not restart the database for it: it returns to the same disk with a cold cache."
source = "field notes B (507 ms against 12 ms); fault lab F11, F40, F42; kernel Documentation/admin-guide/iostats.rst"
[text.place_text]
database = " On it: {databases} ({mount_points})."
mounted = " On it: {mount_points}."
unknown = ""
[text.member_text]
array = "fail it out of its array (`mdadm /dev/{array} --fail /dev/{member}`, only if that is a mirror and every other member is in sync)"
unknown = "fail a bad member out of its mirror (`mdadm --fail`, only if every other member is in sync)"
[chart]
title = "Time per operation"
unit = "s"
sql = """
select ts, (spent - lag(spent) over (order by ts)) / nullif(done - lag(done) over (order by ts), 0) as await_seconds
from (select ts, read_seconds_total + write_seconds_total as spent, reads_total + writes_total as done from disk_stat
  where host = {host} and device = {device} and ts > $now - interval '15 minutes' and ts <= $now) d
order by ts"""
---*/
with samples as (
  select host, device, ts,
    reads_total + writes_total as done,
    read_seconds_total + write_seconds_total as spent,
    read_bytes_total + written_bytes_total as bytes,
    busy_seconds_total as busy,
    weighted_seconds_total as weighted,
    date_part('epoch', ts) as at
  from disk_stat
  where ts > $now - interval '1 hour' and ts <= $now and not is_partition
),
steps as (
  select host, device, ts > $now - interval '12 seconds' as is_now, ts <= $now - interval '25 seconds' as is_past,
    done - lag(done) over w as done, spent - lag(spent) over w as spent, bytes - lag(bytes) over w as bytes,
    busy - lag(busy) over w as busy, weighted - lag(weighted) over w as weighted, at - lag(at) over w as seconds
  from samples
  window w as (partition by host, device order by ts)
),
sums as (
  select host, device,
    sum(done) filter (where is_now) as done, sum(spent) filter (where is_now) as spent,
    sum(bytes) filter (where is_now) as bytes, sum(busy) filter (where is_now) as busy,
    sum(weighted) filter (where is_now) as weighted, sum(seconds) filter (where is_now) as seconds,
    sum(done) filter (where is_past) as past_done, sum(spent) filter (where is_past) as past_spent,
    sum(bytes) filter (where is_past) as past_bytes, sum(seconds) filter (where is_past) as past_seconds
  from steps
  where done >= 0 and spent >= 0 and seconds > 0
  group by host, device
),
rates as (
  select host, device,
    past_seconds, spent / done as await_seconds, past_spent / past_done as past_await_seconds,
    weighted / seconds as queue, busy / seconds as utilisation,
    done / seconds as operations_per_second, past_done / past_seconds as past_operations_per_second,
    bytes / seconds as bytes_per_second, past_bytes / past_seconds as past_bytes_per_second
  from sums
  where seconds >= 5 and done >= 5 and past_seconds >= 15 and past_done >= 20
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
select r.*, await_seconds / greatest(past_await_seconds, 0.0001) as times, m.array, m.member, b.mount_points, d.databases,
  case when d.databases is not null then 'database' when b.mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when m.array is not null then 'array' else 'unknown' end as member_text,
  await_seconds >= case when past_seconds >= 60 then 3 else 6 end * past_await_seconds as opens
from rates r
left join places b on b.host = r.host and b.device = r.device
left join home_disks d on d.host = r.host and d.device = r.device
left join member_disk m on m.host = r.host and m.disk = r.device
where await_seconds >= 0.02 and queue > 1 and utilisation > 0.5
  and operations_per_second < 2 * past_operations_per_second
  and bytes_per_second < 2 * past_bytes_per_second
