/*---
id = "proxy.down"
title = "Proxy down: connections refused"
tier = "proxy"
class = "page"
for = "4s"
every = "2s"
clear = "6s"
key = ["netns", "process", "ports"]
prefers = ["mem.oom_kill"]
needs = ["listener", "edge_listener", "tcp_stat", "finding", "kmsg"]
when = """
select 1 from (select max(ts) as last_ts from listener where tier in ('proxy', 'edge') and ts > $now - interval '2 minutes' and ts <= $now
  group by host, netns, server_port) gone where last_ts < $now - interval '4 seconds'
union all select 1 from finding where rule = 'proxy.down' and state <> 'resolved' and ts > $now - interval '24 hours' and ts <= $now limit 1"""
explains = ["app.down", "app.requests_stopped"]
subject = "{process} on port {ports} of {host}"
summary = "{process} on {host} (netns {netns}) is not listening on port {ports} since {since_text}; {resets} connections refused, {rate:.1}/s"
why = "The kernel answers each new connection with a reset: clients see \"connection refused\" at once, however healthy the backends are. A load balancer in front removes the host after its next checks; without one the site is down."
look_at = "`systemctl status {process:sh}` and `journalctl -u {process:sh} -n 50`: was it stopped by someone, killed (mem.oom_kill, app.segfault), or does its configuration prevent a start (`nginx -t`, `haproxy -c -f /etc/haproxy/haproxy.cfg`)? Does another process hold the port (`ss -ltnp`)?"
silent_when = "It listens again within 8 s, as after a restart (a reload closes no socket), another process took the port, or it still listens on another one. No clients, by Tcp.OutRsts of that namespace: fewer than 3 resets. Below 3 resets/s it is a mail, below 1.5 (health checks of a host removed on purpose) a note. An OOM kill or crash explains it only if the process name matches. A namespace that no longer exists (a stopped container) has no counters."
fix = "`systemctl start {process:sh}`, after checking its configuration (`nginx -t`; `haproxy -c -f /etc/haproxy/haproxy.cfg`; `apachectl configtest`). So that it restarts without help: `Restart=on-failure` and `RestartSec=1` in `systemctl edit {process:sh}`. Change configurations by reload, never by restart: a reload with a mistake leaves the old one running. Check: resets end and the listener is back."
source = "tcp(7), connect(2) ECONNREFUSED; fault lab F32 (reset in 0 ms)"
[chart]
title = "Connections refused"
unit = ""
sql = """
select ts, increase from tcp_stat
where host = {host} and netns = {netns} and protocol = 'Tcp' and counter = 'OutRsts' and ts > $now - interval '10 minutes' and ts <= $now order by ts"""
---*/
with listening as (
  select host, netns, server_port, max(ts) as last_ts
  from listener
  where ts > $now - interval '2 minutes' and ts <= $now
  group by host, netns, server_port
),
looked_at as (
  select host from listening group by host having max(last_ts) > $now - interval '3 seconds'
),
taken as (
  select host, netns, server_port from listening where last_ts > $now - interval '4 seconds'
),
-- An edge's other ports, such as a page, serve no clients.
edges as (
  select distinct host, cast(split_part(listener, ':', -1) as bigint) as server_port
  from edge_listener
  where ts > $now - interval '10 minutes' and ts <= $now
),
ports as (
  select l.host, l.netns, l.process_name as process, max(l.tier) as tier, l.server_port, min(l.ts) as first_ts, max(l.ts) as last_ts
  from listener l
  left join edges e on e.host = l.host and e.server_port = l.server_port
  where l.ts > $now - interval '2 minutes' and l.ts <= $now and l.process_name is not null
    and (l.tier = 'proxy' or l.tier = 'edge' and e.host is not null)
  group by l.host, l.netns, l.process_name, l.server_port
),
gone as (
  select p.host, p.netns, p.process, max(p.tier) as tier, max(p.last_ts) as since_ts,
    string_agg(cast(p.server_port as varchar), ', ' order by p.server_port) as ports
  from ports p
  left join taken t on t.host = p.host and t.netns = p.netns and t.server_port = p.server_port
  group by p.host, p.netns, p.process
  having max(p.last_ts) < $now - interval '4 seconds' and count(t.server_port) = 0
    and date_part('epoch', max(p.last_ts)) - date_part('epoch', min(p.first_ts)) >= 20
),
found as (
  select host, tier, started_ts, state, regexp_match(key, '"netns":"([^"]*)"')[1] as netns,
    regexp_match(key, '"process":"([^"]*)"')[1] as process, regexp_match(key, '"ports":"([^"]*)"')[1] as ports,
    row_number() over (partition by finding_id order by ts desc) as place
  from finding
  where rule = 'proxy.down' and ts > $now - interval '24 hours' and ts <= $now
),
-- An open finding lasts until something listens there, long after the last sample has left the window.
still as (
  select f.host, f.netns, f.process, max(f.tier) as tier, min(f.started_ts) as since_ts, f.ports
  from found f
  left join taken t on t.host = f.host and t.netns = f.netns
    and concat(', ', f.ports, ',') like concat('%, ', cast(t.server_port as varchar), ',%')
  left join gone g on g.host = f.host and g.netns = f.netns and g.process = f.process and g.ports = f.ports
  where f.place = 1 and f.state <> 'resolved' and g.host is null
  group by f.host, f.netns, f.process, f.ports
  having count(t.server_port) = 0
),
down as (
  select host, netns, process, tier, since_ts, ports from gone
  union all
  select host, netns, process, tier, since_ts, ports from still
),
refused as (
  select d.host, d.netns, d.process, d.ports, sum(s.increase) as resets,
    greatest(least(date_part('epoch', $now) - date_part('epoch', max(d.since_ts)) - 2, 118), 1) as span_seconds
  from down d
  join tcp_stat s on s.host = d.host and s.netns = d.netns and s.ts > d.since_ts + interval '2 seconds'
  where s.ts > $now - interval '2 minutes' and s.ts <= $now and s.protocol = 'Tcp' and s.counter = 'OutRsts'
  group by d.host, d.netns, d.process, d.ports
  having sum(s.increase) >= 3
),
ended as (
  select host, subject as process, string_agg(distinct kind, ', ') as kinds
  from kmsg
  where kind in ('oom_kill', 'segfault') and ts > $now - interval '10 minutes' and ts <= $now
  group by host, subject
)
select d.host, d.netns, d.process, d.process as process_name, d.ports, d.tier, cast(date_trunc('second', d.since_ts) as varchar) as since_text,
  r.resets, r.resets / r.span_seconds as rate,
  concat_ws(', ', case when coalesce(e.kinds, '') not like '%oom_kill%' then 'mem.oom_kill' end,
    case when coalesce(e.kinds, '') not like '%segfault%' then 'app.segfault' end) as not_explained_by,
  case when r.resets / r.span_seconds >= 3 then 'page' when r.resets / r.span_seconds >= 1.5 then 'mail' else 'note' end as class
from down d
join looked_at l on l.host = d.host
join refused r on r.host = d.host and r.netns = d.netns and r.process = d.process and r.ports = d.ports
left join ended e on e.host = d.host and e.process = d.process
