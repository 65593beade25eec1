/*---
id = "mem.cgroup_near_limit"
title = "Service memory grows towards its cgroup limit"
tier = "host"
class = "mail"
for = "30s"
every = "30s"
clear = "2m"
key = ["cgroup"]
prefers = ["mem.oom_kill"]
needs = ["cgroup_stat"]
when = "select 1 from cgroup_stat where memory_limit_bytes > 0 and memory_used_bytes - coalesce(memory_inactive_file_bytes, 0) > 0.7 * memory_limit_bytes and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{cgroup} on {host}"
summary = "{cgroup} on {host} reaches its memory limit in {eta_seconds:duration}: {used_bytes:bytes} of {limit_bytes:bytes} ({used_ratio:%}, without reclaimable page cache), growing by {bytes_per_minute:bytes} a minute"
why = "At the limit the kernel first evicts the cgroup's page cache, which makes its disk look slow, and then kills one of its processes. The host has free memory meanwhile, so nothing else shows it."
look_at = "The slope over a day (chart): a straight line is a leak, a step is a job or a deploy. How many processes now and then: each added worker needs memory."
silent_when = "Less than 70 % of the limit, or not at it within an hour at the rate of the last 10 minutes, or that rate is not steady (r² below 0.8, less than 5 minutes of samples, or no growth in the last 2 minutes). A service that has stayed at 95 % for weeks is sized well. Active page cache counts as memory of the cgroup: a first read of many files looks like growth."
fix = "Now: restart the service at a quiet moment, before the kernel does it at a bad one. Then either its limit is too small for what it does: systemd `MemoryMax=`, Docker `--memory`, Kubernetes `limits.memory`, or it leaks: restart its workers after a number of requests (gunicorn `--max-requests 1000 --max-requests-jitter 100`, PHP-FPM `pm.max_requests = 1000`) until the leak is found. Check: the line in the chart becomes flat. Do not set oom_score_adj for it: at a cgroup's limit another process of the same cgroup is killed."
source = "fault lab F14 (a line of 10 MB/s up to the kill), F46; kernel Documentation/admin-guide/cgroup-v2.rst, memory.max"
[chart]
title = "Memory of the cgroup without reclaimable page cache"
unit = "B"
sql = """
select ts, memory_used_bytes - coalesce(memory_inactive_file_bytes, 0) as used, memory_limit_bytes as limit_bytes from cgroup_stat
where host = {host} and cgroup = {cgroup} and ts > $now - interval '6 hours' and ts <= $now order by ts"""
---*/
with samples as (
  select host, cgroup, memory_limit_bytes as limit_bytes,
    cast(memory_used_bytes - coalesce(memory_inactive_file_bytes, 0) as double) as used,
    date_part('epoch', ts) - date_part('epoch', $now) as age
  from cgroup_stat
  where ts > $now - interval '10 minutes' and ts <= $now and memory_limit_bytes > 0 and memory_used_bytes is not null
),
paces as (
  select host, cgroup, min(limit_bytes) as limit_bytes,
    avg(used) filter (where age > -10) as used_bytes,
    regr_slope(used, age) as slope, regr_r2(used, age) as fit,
    regr_slope(used, age) filter (where age > -120) as slope_now,
    max(age) - min(age) as span_seconds
  from samples
  group by host, cgroup
)
select host, cgroup, used_bytes, limit_bytes, used_bytes / limit_bytes as used_ratio, slope * 60 as bytes_per_minute, fit,
  greatest(limit_bytes - used_bytes, 0.0) / slope as eta_seconds
from paces
where used_bytes > 0.7 * limit_bytes and slope > 0 and slope_now > 0.2 * slope and fit >= 0.8 and span_seconds >= 295
  and (limit_bytes - used_bytes) / slope < 3600
