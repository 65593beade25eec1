/*---
id = "proxy.worker_blocked"
title = "Proxy workers blocked on disk I/O"
tier = "disk"
class = "mail"
for = "0s"
every = "1s"
clear = "30s"
key = ["process_name"]
needs = ["process_stat"]
when = "select 1 from process_stat where blocked_samples > 0 and ts > $now - interval '20 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped", "app.slow", "app.slow_quiet", "proxy.upstream_hangs"]
subject = "{process_name} on {host}"
summary = "{blocked_processes} of {processes} {process_name} processes on {host} blocked in the kernel in {blocked_samples} of {worst_samples} samples in 20 s (worst: {worst_ratio:%}{channel_text})"
why = "A worker that waits for a disk does nothing else: all its other connections wait with it, and new ones fill the accept queue while the CPU is idle. Access logs and temporary files on a slow disk are enough."
look_at = "What it waits for: `cat /proc/PID/wchan` (`folio_wait_bit`, `jbd2_log_wait_commit`, `io_schedule`: a disk; `nfs_…`, `rpc_…`: a network file system), `ls -l /proc/PID/fd` for the files it writes. disk_stat for the device: await, in_flight. A cgroup limit is invisible at the device: `cgroup_stat`, pressure of io."
silent_when = "Less than 20 % of the samples, or fewer than 4 of them, were in state D. Only processes of proxies and web servers with a listening socket (nginx, haproxy, apache2, httpd, caddy, envoy, traefik, varnishd, squid)."
fix = "Take the disk out of the request path: logs on their own disk, or buffered: `access_log /var/log/nginx/access.log FORMAT buffer=64k flush=1s;` in nginx; for served files `aio threads;` (`directio 4m;` for large ones), and `proxy_buffers 16 16k;` against temporary files. A host crash loses at most a second of buffered lines. If the disk itself is slow for all, fix that first: disk.slow. Check: blocked_samples of process_stat is 0 again."
source = "fault lab F36 (p50 1.6 to 304 ms, state D in folio_wait_bit in 96 % of the samples); proc_pid_stat(5)"
[chart]
title = "Blocked samples"
unit = ""
sql = """
select ts, sum(blocked_samples) as blocked_samples, sum(samples) as samples from process_stat
where host = {host} and process_name = {process_name} and ts > $now - interval '10 minutes' and ts <= $now group by ts order by ts"""
---*/
with processes as (
  select host, process_name, process_id, sum(samples) as samples, sum(blocked_samples) as blocked, max(wait_channel) as wait_channel
  from process_stat
  where ts > $now - interval '20 seconds' and ts <= $now
    and process_name in ('nginx', 'haproxy', 'apache2', 'httpd', 'caddy', 'envoy', 'traefik', 'varnishd', 'cache-main', 'squid')
  group by host, process_name, process_id
),
programs as (
  select host, process_name, count(*) as processes,
    count(*) filter (where blocked >= 4 and blocked > 0.2 * samples) as blocked_processes,
    sum(blocked) as blocked_samples_all, max(blocked) as blocked_samples, max(samples) as worst_samples,
    max(cast(blocked as double) / greatest(samples, 1)) as worst_ratio, max(wait_channel) as wait_channel
  from processes
  group by host, process_name
)
select host, process_name, processes, blocked_processes, blocked_samples, worst_samples, worst_ratio, wait_channel,
  case when wait_channel like 'nfs%' or wait_channel like 'rpc%' then 'host' else 'disk' end as tier,
  case when wait_channel is not null then concat(', in ', wait_channel) else '' end as channel_text
from programs
where blocked_processes > 0
