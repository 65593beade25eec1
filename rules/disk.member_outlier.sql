/*---
id = "disk.member_outlier"
title = "One disk is far slower than its siblings"
tier = "disk"
class = "page"
for = "5s"
every = "10s"
clear = "60s"
key = ["device"]
needs = ["disk_stat", "raid_member", "raid", "block_device", "db_server", "filesystem"]
when = "select host from disk_stat where ts > $now - interval '60 seconds' and ts <= $now and not is_partition group by host, device having max(reads_total + writes_total) - min(reads_total + writes_total) >= 30 and max(read_seconds_total + write_seconds_total) - min(read_seconds_total + write_seconds_total) >= 0.005 * (max(reads_total + writes_total) - min(reads_total + writes_total)) limit 1"
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.slow", "app.slow_outlier", "app.slow_quiet",
  "app.slow_url", "client.aborts_499", "db.connections_exhausted", "db.not_answering", "disk.slow",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_blocked",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "disk {device} of {host}"
summary = "{device} is {times:.0}× slower than its {siblings} siblings on {host}: await {await_seconds:duration} vs {sibling_await_seconds:duration} ({group_text}) in {bad_windows} of 5 windows of 12 s, at {operations_per_second:.0} IOPS"
why = "Members of one array or data set get the same kind of work, so a single slow one is faulty, and all others wait for it: a stripe is as fast as its slowest disk, and so is every database on it.{place_text}"
look_at = "`dmesg` and `smartctl -a /dev/{device}` for errors, /proc/mdstat for the array's state, the provider's page for this volume. The disk's last hours in the chart: a step, or a steady decline?"
silent_when = "Members of an md array are compared with each other, reads with reads and writes with writes (10 of a kind in 12 s), because a mirror reads mostly from its first half; other disks with at least 3 of the same name family (sd, vd, xvd, nvme, loop), 5 IOPS and a load within 4× of its own. Silent below 5× the siblings' median, below 20 ms or within 5 spreads of the siblings, in 3 of the last 5 windows. A disk that was as much slower an hour ago is of another kind (one large disk among flash) and opens no finding. It is a mail while the array as a whole is no 3× slower than before. All slow together is load. I/O throttled by a cgroup limit waits above the device and is invisible here."
fix = "{fix_text} Check: /proc/mdstat shows one missing and no second slow one, and await of the others is unchanged. Never fail a second member, and not during a rebuild, which reads slowly anyway."
source = "field notes B (507 ms against 13 ms, 38 times); fault lab F11 (82 times the median); kernel Documentation/admin-guide/iostats.rst"
[text.place_text]
database = " On it: {databases} ({mount_points})."
mounted = " On it: {mount_points}."
unknown = ""
[text.fix_text]
fail = "Every other member is in sync, so fail it out: `mdadm /dev/{array} --fail /dev/{member}`, read `cat /sys/block/{array}/md/dev-{member}/state` (it says `faulty`; the exit code may be wrong), then `--remove`, and add a new one when traffic is low. The siblings' speed is back at once."
syncing = "Do not fail it out of {array} now: a sync is running. Reduce load, wait for it, or pause it (`echo idle > /sys/block/{array}/md/sync_action`)."
unsafe = "Do not fail it out of {array} now: another member is missing, not in sync or has unreadable sectors. Repair that first; meanwhile move load or the data away."
no_mirror = "{array} has no redundancy: move its data to other disks, or replace the volume from a snapshot."
unknown = "If the array is a mirror (RAID 1, 10, 5, 6) and every other member is in sync: `mdadm /dev/mdX --fail /dev/{device}`, then `--remove`, run without it, and add a new one when traffic is low. The siblings' speed is back at once. A volume without an array: move its data."
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
  select host, device,
    cast(floor((date_part('epoch', $now) - date_part('epoch', ts)) / 12) as bigint) as slice,
    reads_total, read_seconds_total, writes_total, write_seconds_total
  from disk_stat
  where ts > $now - interval '60 seconds' and ts <= $now and not is_partition
  union all
  select host, device, 98 as slice, reads_total, read_seconds_total, writes_total, write_seconds_total
  from disk_stat
  where ts > $now - interval '6 minutes' and ts <= $now - interval '5 minutes' and not is_partition
  union all
  select host, device, 99 as slice, reads_total, read_seconds_total, writes_total, write_seconds_total
  from disk_stat
  where ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes' and not is_partition
),
slices as (
  select host, device, slice,
    max(reads_total) - min(reads_total) as reads, max(read_seconds_total) - min(read_seconds_total) as read_seconds,
    max(writes_total) - min(writes_total) as writes, max(write_seconds_total) - min(write_seconds_total) as write_seconds
  from samples
  group by host, device, slice
),
member_now as (
  select host, array, device, disk, mirror_set, state, slot, coalesce(bad_sectors, 0) as bad_sectors,
    row_number() over (partition by host, array, device order by ts desc) as place
  from raid_member
  where ts > $now - interval '40 seconds' and ts <= $now
),
-- Disks whose partitions are in the same arrays are siblings.
member_disk as (
  select host, disk, string_agg(distinct array, ' ' order by array) as arrays, min(array) as array, min(device) as member
  from member_now
  where place = 1 and slot is not null
  group by host, disk
),
directed as (
  select s.host, s.device, s.slice, m.arrays as family, 'reads' as direction, true as is_member, s.reads as done, s.read_seconds / s.reads as await_seconds
  from slices s join member_disk m on m.host = s.host and m.disk = s.device
  where s.reads >= 10
  union all
  select s.host, s.device, s.slice, m.arrays as family, 'writes' as direction, true as is_member, s.writes as done, s.write_seconds / s.writes as await_seconds
  from slices s join member_disk m on m.host = s.host and m.disk = s.device
  where s.writes >= 10
  union all
  select s.host, s.device, s.slice, regexp_match(s.device, '^(sd|vd|xvd|hd|nvme|loop)')[1] as family, 'all' as direction, false as is_member,
    s.reads + s.writes as done, (s.read_seconds + s.write_seconds) / (s.reads + s.writes) as await_seconds
  from slices s left join member_disk m on m.host = s.host and m.disk = s.device
  where m.disk is null and s.reads + s.writes >= 55
),
logged as (
  select *, ln(greatest(await_seconds, 0.00005)) as log_await from directed
),
compared as (
  select s.host, s.family, s.direction, s.device, s.slice, s.done, s.await_seconds, s.log_await,
    median(o.await_seconds) as sibling_await_seconds, median(o.log_await) as sibling_log, count(*) as siblings
  from logged s
  join logged o on o.host = s.host and o.family = s.family and o.direction = s.direction and o.slice = s.slice and o.device <> s.device
    and (s.is_member or (o.done * 4 >= s.done and o.done <= s.done * 4))
  group by s.host, s.family, s.direction, s.device, s.slice, s.done, s.await_seconds, s.log_await
  having count(*) >= 3
),
spread as (
  select c.host, c.family, c.direction, c.device, c.slice, median(abs(o.log_await - c.sibling_log)) as log_spread
  from compared c
  join logged o on o.host = c.host and o.family = c.family and o.direction = c.direction and o.slice = c.slice and o.device <> c.device
  where c.await_seconds >= 0.02 and c.await_seconds >= 5 * c.sibling_await_seconds
  group by c.host, c.family, c.direction, c.device, c.slice
),
past as (
  select host, device, direction, await_seconds / greatest(sibling_await_seconds, 0.00005) as past_times
  from compared where slice = 99
),
judged as (
  select c.host, c.family, c.direction, c.device, avg(c.await_seconds) as await_seconds, median(c.sibling_await_seconds) as sibling_await_seconds,
    max(c.siblings) as siblings, sum(c.done) / 11.0 / count(*) as operations_per_second,
    count(*) filter (where c.await_seconds >= 0.02 and c.await_seconds >= 5 * c.sibling_await_seconds
      and c.log_await - c.sibling_log >= 5 * greatest(1.4826 * s.log_spread, 0.15)) as bad_windows
  from compared c
  left join spread s on s.host = c.host and s.family = c.family and s.direction = c.direction and s.device = c.device and s.slice = c.slice
  where c.slice < 5
  group by c.host, c.family, c.direction, c.device
),
worst as (
  select *, await_seconds / greatest(sibling_await_seconds, 0.00005) as times,
    row_number() over (partition by host, device order by bad_windows desc, await_seconds / greatest(sibling_await_seconds, 0.00005) desc) as place
  from judged
  where bad_windows >= 3
),
array_speed as (
  select host, device,
    sum(read_seconds + write_seconds) filter (where slice < 5) / nullif(sum(reads + writes) filter (where slice < 5), 0) as await_seconds,
    min((read_seconds + write_seconds) / (reads + writes)) filter (where slice > 5) as past_await_seconds
  from slices
  where device like 'md%' and reads + writes > 0
  group by host, device
),
arrays as (
  select host, array, level, sync_action, row_number() over (partition by host, array order by ts desc) as place
  from raid
  where ts > $now - interval '40 seconds' and ts <= $now
),
others as (
  select m.host, m.disk, count(*) filter (where o.state not like '%in_sync%' or o.bad_sectors > 0) as ill
  from member_disk m
  join member_now o on o.host = m.host and o.array = m.array and o.disk <> m.disk and o.place = 1 and o.state not like '%spare%'
  group by m.host, m.disk
),
slots as (
  select host, array, max(members_wanted) - max(members_present) as missing
  from raid
  where ts > $now - interval '40 seconds' and ts <= $now
  group by host, array
),
places as (
  select host, device, max(arrays) as arrays, max(mount_points) as mount_points
  from block_device
  where ts > $now - interval '3 minutes' and ts <= $now
  group by host, device
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
select w.host, w.device, w.family, w.direction, w.await_seconds, w.sibling_await_seconds, w.siblings, w.operations_per_second, w.bad_windows,
  w.times, p.past_times, m.array, m.member, a.level, b.mount_points, d.databases, v.await_seconds as array_await_seconds, v.past_await_seconds as array_past_await_seconds,
  case when w.direction = 'all' then w.family else concat(w.family, ' ', w.direction) end as group_text,
  case when m.array is null or a.level is null then 'unknown'
    when a.level in ('raid0', 'linear') then 'no_mirror'
    when a.sync_action is not null then 'syncing'
    when coalesce(o.ill, 0) > 0 or coalesce(t.missing, 0) > 0 then 'unsafe'
    else 'fail' end as fix_text,
  case when d.databases is not null then 'database' when b.mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when v.await_seconds < 3 * v.past_await_seconds then 'mail' else 'page' end as class,
  p.past_times is null or p.past_times < 0.5 * w.times as opens
from worst w
left join past p on p.host = w.host and p.device = w.device and p.direction = w.direction
left join member_disk m on m.host = w.host and m.disk = w.device
left join arrays a on a.host = m.host and a.array = m.array and a.place = 1
left join others o on o.host = w.host and o.disk = w.device
left join slots t on t.host = m.host and t.array = m.array
left join array_speed v on v.host = m.host and v.device = m.array
left join places b on b.host = w.host and b.device = w.device
left join home_disks d on d.host = w.host and d.device = w.device
where w.place = 1
