/*---
id = "app.crash_loop"
title = "A server starts again and again"
tier = "app"
class = "page"
for = "0s"
every = "10s"
clear = "5m"
key = ["netns", "server_port"]
explained_by = ["mem.oom_kill", "app.segfault"]
needs = ["listener"]
when = "select host from listener where ts > $now - interval '10 minutes' and ts <= $now and process_id is not null group by host, netns, server_port having min(process_id) < max(process_id) limit 1"
subject = "{process} on port {server_port} of {host}"
summary = "{process} on port {server_port} of {host} (netns {netns}) was started {starts} times in 10 minutes, and its port was closed in {gap_seconds} of the last {span_seconds} seconds"
why = "The process listens, ends, and something starts it again. Each start costs its visitors some seconds of refused connections and it never gets warm; restart limits of the service manager will leave it stopped at some time (systemd: 5 starts in 10 s)."
look_at = "Why it ends: `journalctl -u UNIT -n 100` (exit code or signal), mem.oom_kill, app.segfault of this host. Does a health check kill it (`systemctl show UNIT -p Result,NRestarts`, Kubernetes liveness)? What was deployed before the first start?"
silent_when = "Fewer than 3 new processes with a new socket on that port within 10 minutes: a deploy with one or two restarts is silent, and so is a reload, which keeps the socket. Ports from 32768 on, where passive FTP and tests listen, are left out, and so are ports that several processes hold with a socket each (SO_REUSEPORT)."
fix = "Stop the automatic restarts (`systemctl stop UNIT`, or scale to 0), go back to the version or configuration that ran, then start it once and watch it for ten minutes. A liveness check that kills a slow start: give it time (`startupProbe`, `TimeoutStartSec=`). Space the starts: `RestartSec=5`, `StartLimitIntervalSec=10min`, `StartLimitBurst=3`, so that it is noticed. Check: process_id of its listener stays."
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
select host, netns, server_port, max(process) as process, sum(is_start) as starts, sum(gap) as gap_seconds,
  cast(round(date_part('epoch', max(ts)) - date_part('epoch', min(ts))) as bigint) as span_seconds,
  case when max(process) in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy') then 'proxy' else 'app' end as tier
from steps
group by host, netns, server_port
having sum(is_start) >= 3 and sum(is_start) * 2 >= count(distinct process_id) and max(sockets) <= 2
  and count(distinct process_id) >= 4
