/*---
id = "disk.member_outlier"
title = "One disk is far slower than its siblings"
tier = "disk"
class = "page"
for = "5s"
every = "10s"
clear = "60s"
key = ["device"]
needs = ["disk_stat"]
when = "select host from disk_stat where ts > $now - interval '60 seconds' and ts <= $now and not is_partition group by host, device having max(reads_total + writes_total) - min(reads_total + writes_total) >= 165 and max(read_seconds_total + write_seconds_total) - min(read_seconds_total + write_seconds_total) >= 0.005 * (max(reads_total + writes_total) - min(reads_total + writes_total)) limit 1"
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.slow", "app.slow_outlier", "app.slow_quiet",
  "app.slow_url", "client.aborts_499", "db.connections_exhausted", "db.not_answering", "disk.slow",
  "proxy.haproxy_queue", "proxy.retry_amplification", "proxy.worker_blocked",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow",
]
subject = "disk {device} of {host}"
summary = "{device} is {times:.0}× slower than its {siblings} siblings on {host}: await {await_seconds:duration} vs {sibling_await_seconds:duration} ({family}) in {bad_windows} of 5 windows of 12 s, at {operations_per_second:.0} IOPS"
why = "Members of one array or data set get the same kind of work, so a single slow one is faulty, and all others wait for it: a stripe is as fast as its slowest disk, and so is every database on it."
look_at = "`dmesg` and `smartctl -a /dev/{device}` for errors, /proc/mdstat for the array's state, the provider's page for this volume. The disk's last hours in the chart: a step, or a steady decline?"
silent_when = "Fewer than 3 siblings of the same name family (sd, vd, xvd, nvme, loop) with at least 5 IOPS and a load within 4× of its own; less than 5× their median, or below 20 ms, in 3 of the last 5 windows. A disk that was as much slower an hour ago is of another kind (one large disk among flash) and opens no finding. All slow together is load. I/O throttled by a cgroup limit waits above the device and is invisible here."
fix = "If the array is a mirror (RAID 1, 10, 5, 6) and every other member is in sync: `mdadm /dev/mdX --fail /dev/{device}`, then `--remove`, run without it, and add a new one when traffic is low. The siblings' speed is back at once. A volume without an array: move its data. Check: /proc/mdstat shows one missing and no second slow one, and await of the others is unchanged. Never fail a second member, and not during a rebuild, which reads slowly anyway."
source = "field notes B (507 ms against 13 ms, 38 times); fault lab F11 (82 times the median); kernel Documentation/admin-guide/iostats.rst"
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
    reads_total + writes_total as done, read_seconds_total + write_seconds_total as spent
  from disk_stat
  where ts > $now - interval '60 seconds' and ts <= $now and not is_partition
  union all
  select host, device, 99 as slice,
    reads_total + writes_total as done, read_seconds_total + write_seconds_total as spent
  from disk_stat
  where ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes' and not is_partition
),
slices as (
  select host, regexp_match(max(device), '^(sd|vd|xvd|hd|nvme|loop)')[1] as family, device, slice, max(done) - min(done) as done,
    (max(spent) - min(spent)) / greatest(max(done) - min(done), 1) as await_seconds
  from samples
  group by host, device, slice
  having max(done) - min(done) >= 55
),
compared as (
  select s.host, s.family, s.device, s.slice, s.done, s.await_seconds,
    median(o.await_seconds) as sibling_await_seconds, count(*) as siblings
  from slices s
  join slices o on o.host = s.host and o.family = s.family and o.slice = s.slice and o.device <> s.device
    and o.done * 4 >= s.done and o.done <= s.done * 4
  group by s.host, s.family, s.device, s.slice, s.done, s.await_seconds
  having count(*) >= 3
),
past as (
  select host, device, await_seconds / greatest(sibling_await_seconds, 0.00005) as past_times
  from compared where slice = 99
),
judged as (
  select host, family, device, avg(await_seconds) as await_seconds, median(sibling_await_seconds) as sibling_await_seconds,
    max(siblings) as siblings, sum(done) / 11.0 / count(*) as operations_per_second,
    count(*) filter (where await_seconds >= 0.02 and await_seconds >= 5 * sibling_await_seconds) as bad_windows
  from compared
  where slice < 5
  group by host, family, device
)
select j.host, j.device, j.family, j.await_seconds, j.sibling_await_seconds, j.siblings, j.operations_per_second, j.bad_windows,
  j.await_seconds / greatest(j.sibling_await_seconds, 0.00005) as times, p.past_times,
  p.past_times is null or p.past_times < 0.5 * j.await_seconds / greatest(j.sibling_await_seconds, 0.00005) as opens
from judged j
left join past p on p.host = j.host and p.device = j.device
where j.bad_windows >= 3
