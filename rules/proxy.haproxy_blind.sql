/*---
id = "proxy.haproxy_blind"
title = "HAProxy can be neither read nor queried"
tier = "proxy"
class = "note"
for = "10m"
every = "30s"
clear = "2m"
key = ["proxy"]
needs = ["listener", "config_directive", "request", "proxy_stat"]
when = "select 1 from listener where process_name = 'haproxy' and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "HAProxy on {host}"
summary = "HAProxy on {host} (port {ports}): no log that weir can read and {stat_text}, so its requests and errors are invisible"
why = "HAProxy writes no files: it sends its log to a syslog daemon or to its stdout. Without a log and without its statistics, failing requests, servers that are down and queues leave no trace here."
look_at = "`grep -n -e '^ *log ' -e 'stats socket' {file:sh}`; does a syslog daemon listen on that address, and does /var/log/haproxy.log exist?"
silent_when = "A request in its log within the last 10 minutes, or statistics within 2."
fix = "In `global` of {file}: `stats socket /run/haproxy/admin.sock mode 660 level operator`, then `systemctl reload haproxy`. weir finds the line itself and samples the counters every 2 s. For every request with its times: `log /dev/log local0` in `global`, `log global` and `option httplog` in `defaults`, and a syslog daemon that writes local0 to /var/log/haproxy.log. Check: the table proxy_stat has rows of this host."
source = "HAProxy configuration manual 3.1 (stats socket) and 4.2 (log, option httplog)"
[text.stat_text]
none = "no stats socket in its configuration"
failed = "its statistics fail: {error}"
---*/
with listening as (
  select host, string_agg(distinct cast(server_port as varchar), ', ') as ports
  from listener
  where process_name = 'haproxy' and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
files as (
  select host, max(file) as file
  from config_directive
  where program = 'haproxy' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
logged as (
  select host, count(*) as requests
  from request
  where program = 'haproxy' and ts > $now - interval '1 minute' and ts <= $now
  group by host
),
sampled as (
  select host, count(*) filter (where kind <> 'error') as samples, max(error) as error
  from proxy_stat
  where ts > $now - interval '2 minutes' and ts <= $now
  group by host
)
select l.host, 'haproxy' as proxy, l.ports, coalesce(f.file, '/etc/haproxy/haproxy.cfg') as file, s.error,
  case when s.error is null then 'none' else 'failed' end as stat_text
from listening l
left join files f on f.host = l.host
left join logged r on r.host = l.host
left join sampled s on s.host = l.host
where r.requests is null and coalesce(s.samples, 0) = 0
