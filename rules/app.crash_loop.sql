/*---
id = "app.crash_loop"
title = "Server in a restart loop"
tier = "app"
class = "page"
for = "0s"
every = "10s"
clear = "5m"
key = ["netns", "server_port"]
prefers = ["mem.oom_kill"]
needs = ["listener"]
when = "select host from listener where ts > $now - interval '10 minutes' and ts <= $now and process_id is not null group by host, netns, server_port having min(process_id) < max(process_id) limit 1"
explains = [
  "app.closes_early", "app.down", "app.error_outlier", "app.errors", "app.errors_quiet",
  "app.requests_stopped", "lb.health_flapping", "lb.too_few_healthy", "proxy.bad_gateway",
  "proxy.down", "proxy.haproxy_errors", "proxy.masked_errors", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.retry_storm", "proxy.upstream_errors", "slo.burning",
]
equal = ["process_name"]
subject = "{process} on port {server_port} of {host}"
summary = "{process} on port {server_port} of {host} (netns {netns}) restarted {starts} times in 10 minutes; the port was closed for {gap_seconds} of the last {span_seconds} s"
why = "The process listens, exits and is started again. Each restart costs clients seconds of refused connections, and its caches never get warm. The service manager's restart limit will eventually leave it stopped (systemd: 5 starts in 10 s)."
look_at = "Why it exits: `journalctl -u UNIT -n 100` (exit code or signal), mem.oom_kill and app.segfault of this host. Does a health check kill it (`systemctl show UNIT -p Result,NRestarts`, Kubernetes liveness)? What was deployed before the first restart?"
silent_when = "Fewer than 3 new processes with a new socket on that port within 10 minutes: a deploy with one or two restarts is silent, and so is a reload, which keeps the socket. Ports from 32768 up (passive FTP, tests) and ports that several processes share with a socket each (SO_REUSEPORT) are excluded."
fix = "Stop the automatic restarts (`systemctl stop UNIT`, or scale to 0), roll back to the version or configuration that worked, then start it once and watch it for ten minutes. If a liveness check kills a slow start, give it time (`startupProbe`, `TimeoutStartSec=`). Space out restarts so that the loop is noticed: `RestartSec=5`, `StartLimitIntervalSec=10min`, `StartLimitBurst=3`. Check: process_id of its listener stays the same."
source = "systemd.unit(5), StartLimitBurst; field notes C (jobs that died and came back unnoticed)"
---*/
with moments as (
  select host, netns, server_port, ts, min(process_id) as process_id, max(process_id) as last_process_id,
    min(socket_inode) as socket_inode, count(distinct socket_inode) as sockets, max(process_name) as process
  from listener
  where ts > $now - interval '10 minutes' and ts <= $now and server_port < 32768 and process_id is not null
  group by host, netns, server_port, ts
),
steps as (
  select *,
    case when process_id <> lag(process_id) over w and socket_inode <> lag(socket_inode) over w then 1 else 0 end as is_start,
    case when date_part('epoch', ts) - date_part('epoch', lag(ts) over w) > 1.9
      then cast(round(date_part('epoch', ts) - date_part('epoch', lag(ts) over w)) as bigint) - 1 else 0 end as gap
  from moments
  window w as (partition by host, netns, server_port order by ts)
)
select host, netns, server_port, max(process) as process, max(process) as process_name, sum(is_start) as starts, sum(gap) as gap_seconds,
  cast(round(date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as bigint) as span_seconds,
  case when max(process) in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy') then 'proxy' else 'app' end as tier
from steps
group by host, netns, server_port
having sum(is_start) >= 3 and sum(is_start) * 2 >= count(distinct process_id) and max(sockets) <= 2
  and count(distinct process_id) >= 4
