/*---
id = "app.service_hangs"
title = "A service behind the application does not answer"
tier = "app"
class = "mail"
for = "2s"
every = "4s"
clear = "16s"
key = ["destination"]
equal = ["service_names"]
prefers = [
  "disk.stuck", "disk.member_outlier", "disk.slow", "pg.lock_pileup", "redis.blocked", "db.not_answering",
  "db.connections_exhausted", "db.statements_slow", "app.blocked_on_store", "wire.host_unreachable",
  "firewall.drops_service", "wire.connect_unanswered", "mem.thrash", "cpu.steal",
]
needs = ["tcp_wait", "sock_stat", "request"]
when = [
  "select 1 from tcp_wait where side = 'client' and longest_seconds >= 2 and ts > $now - interval '20 seconds' and ts <= $now limit 1",
  """
select 1 from tcp_wait
where side = 'client' and longest_seconds >= 2 and waiting >= 0.3 * connections and ts > $now - interval '20 seconds' and ts <= $now
group by host, netns, server_address, server_port having count(*) >= 2 or max(longest_seconds) >= 5 limit 1""",
]
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.requests_stopped",
  "app.service_unreachable", "app.slow", "app.slow_quiet", "app.slow_requests_logged",
  "app.socket_backlog_full", "app.worker_timeout", "app.workers_die", "app.lock_pileup", "app.workers_exhausted",
  "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_queue",
  "proxy.haproxy_slow", "proxy.masked_errors", "proxy.retry_amplification", "proxy.retry_storm",
  "proxy.upstream_errors", "proxy.upstream_hangs", "proxy.upstream_timeout",
  "proxy.worker_connections", "slo.burning", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "wire.mtu_blackhole",
]
subject = "{destination} from {host}"
summary = "{who} on {host} waits for {service}: {waiting} of {connections} connections have had no answer for up to {longest_seconds:duration}{state_text}; {visitors} of its own clients wait"
why = "{why_text}"
look_at = "What {service} does: for a database its locks and running statements (PostgreSQL `pg_stat_activity` with `wait_event`, MySQL `show full processlist`, Redis `SLOWLOG GET`), for an HTTP service its own findings and log. `ss -tnoi dst {address}` on {host} has `lastsnd` and `lastrcv` of each connection. `select ts, waiting, longest_seconds from tcp_wait where server_address = '{address}' and server_port = {port} order by ts desc limit 30` shows since when."
silent_when = "In the last 20 s no sample in which 30 % of the connections have waited for over a second and one for 5 s, nor two with a wait of 2 s (busy hosts are sampled rarely). Fewer than two of the host's own clients wait for over a second, fewer than half as many as connections wait (a job in the background), or as many as before. As many connections waited in a fifth or more of the last 10 minutes (long polls, subscriptions, queues that workers wait at, log streams), or weir has watched for less than 90 s, unless 20 % of the host's requests fail meanwhile. Services whose program waits for another service itself: that one is named. A visitor on the same host (a check, a job) whose proxy waits for its upstream. The hop from a proxy to the application is proxy.upstream_hangs."
fix = "{fix_text} Meanwhile a timeout for each call, well below the proxy's, keeps the application's workers free. Check: `waiting` of tcp_wait falls to 0."
source = "kernel tcp_info: tcpi_last_data_sent, tcpi_last_data_recv (net/ipv4/tcp.c, tcp_get_info); sock_diag(7)"
[text.state_text]
received = ""
lost = ", and {unacknowledged} of them have sent data that was never acknowledged"
[text.why_text]
received = "The other kernel has acknowledged the requests, so they arrived, but its program sends no response. Each of these requests occupies a worker or a thread of {who}; once all are occupied, the application serves no request at all."
lost = "The other kernel does not acknowledge the requests: a firewall drops packets of open connections, or the host or its network is down. The kernel retransmits for 15 minutes before it gives up, and each request occupies a worker or a thread of {who} until then."
[text.fix_text]
database = "End the session that holds the lock or the statement that burns, then find out why it runs so long."
service = "Work on {service}, not on {who}: restart it after saving a stack dump, or call it asynchronously or not at all until it answers."
lost = "Allow the packets again (last change of firewall rules and security groups, `nft list ruleset`), or bring the host back; restart {who} to drop the dead connections."
[chart]
title = "Connections without an answer for a second"
unit = ""
sql = """
select ts, sum(waiting) as waiting from tcp_wait
where host = {host} and side = 'client' and server_address = {address} and server_port = {port} and ts > $now - interval '15 minutes' and ts <= $now
group by ts order by ts"""
---*/
with samples as (
  select host, netns, side, server_address as address, server_port as port, ts, connections, waiting, unacknowledged, longest_seconds, process_name, tier
  from tcp_wait
  where ts > $now - interval '20 seconds' and ts <= $now
),
waits as (
  select host, netns, address, port, max(waiting) as waiting, max(connections) as connections,
    min(unacknowledged) as unacknowledged, max(longest_seconds) as longest_seconds, max(process_name) as who
  from samples
  where side = 'client' and waiting >= 0.3 * connections and tier not in ('proxy', 'edge')
  group by host, netns, address, port
  having max(longest_seconds) >= 2 and (count(*) >= 2 or max(longest_seconds) >= 5)
),
servers as (
  -- A loopback address means another service in each namespace.
  select address as server_address, port as server_port, max(host) as server_host, max(process_name) as server_process, max(tier) as server_tier,
    case when address like '127.%' or address = '::1' then host end as only_host,
    case when address like '127.%' or address = '::1' then netns end as only_netns
  from samples
  where side = 'server' and process_name is not null
  group by address, port, only_host, only_netns
  having min(process_name) = max(process_name)
),
visitors as (
  select host as visitors_host, netns as visitors_netns, port as visitors_port, max(waiting) as visitors
  from samples
  where side = 'server' and coalesce(tier, '') not in ('db', 'edge')
  group by host, netns, port
  having count(distinct ts) >= 2 or max(longest_seconds) >= 5
),
history as (
  select host as history_host, netns as history_netns, floor((date_part('epoch', max(ts)) - date_part('epoch', min(ts))) / 10) as slices
  from sock_stat
  where ts > $now - interval '10 minutes' and ts <= $now - interval '30 seconds'
  group by host, netns
),
past as (
  select host as past_host, netns as past_netns, side, server_address as past_address, server_port as past_port,
    floor(date_part('epoch', ts) / 10) as slice, max(waiting) as past_waiting
  from tcp_wait
  where ts > $now - interval '10 minutes' and ts <= $now - interval '30 seconds'
  group by host, netns, side, server_address, server_port, slice
),
usual as (
  select host as usual_host, netns as usual_netns, address as usual_address, port as usual_port, count(*) as usual_slices
  from waits
  join past on past_host = host and past_netns = netns and side = 'client' and past_address = address and past_port = port
  where 2 * past_waiting >= waiting
  group by host, netns, address, port
),
usual_visitors as (
  select visitors_host as uv_host, visitors_netns as uv_netns, visitors_port as uv_port, count(distinct slice) as uv_slices
  from visitors
  join past on past_host = visitors_host and past_netns = visitors_netns and side = 'server' and past_port = visitors_port
  where 2 * past_waiting >= visitors
  group by visitors_host, visitors_netns, visitors_port
),
affected as (
  select w.host, w.netns, w.address, w.port, max(visitors) as visitors, coalesce(max(slices), 0) as slices,
    max(case when coalesce(uv_slices, 0) < 0.2 * slices then visitors end) as new_visitors
  from waits w
  left join history on history_host = w.host and history_netns = w.netns
  join visitors on visitors_host = w.host and visitors_netns = w.netns and visitors_port <> w.port
  left join usual_visitors on uv_host = visitors_host and uv_netns = visitors_netns and uv_port = visitors_port
  group by w.host, w.netns, w.address, w.port
),
named as (
  select w.*, a.visitors, s.server_host, s.server_process, 2 * w.unacknowledged >= w.waiting as is_lost,
    coalesce(s.server_tier = 'db', false) or w.port in (3306, 5432, 6379, 9042, 11211, 27017) as is_database,
    a.slices >= 6 and coalesce(u.usual_slices, 0) < 0.2 * a.slices and coalesce(a.new_visitors >= 2 and 2 * a.new_visitors >= w.waiting, false) as opens
  from waits w
  join affected a on a.host = w.host and a.netns = w.netns and a.address = w.address and a.port = w.port
  left join usual u on u.usual_host = w.host and u.usual_netns = w.netns and u.usual_address = w.address and u.usual_port = w.port
  left join servers s on s.server_address = w.address and s.server_port = w.port
    and (s.only_host is null or s.only_host = w.host and s.only_netns = w.netns)
),
links as (
  -- A service whose own program waits for another one is a link of the chain, not its end.
  select distinct host as link_host, who as link_who from named where opens
),
entries as (
  -- So is a proxy that waits for its upstream, where who waits for it serves no client that waits, or has the name of
  -- that upstream: a visitor on the same host, such as a check or a scheduled job. The rules of proxies name that upstream.
  select distinct s.host as entry_host, s.process_name as entry_program, coalesce(u.server_process, '') as upstream_program
  from samples s
  left join servers u on u.server_address = s.address and u.server_port = s.port and (u.only_host is null or u.only_host = s.host and u.only_netns = s.netns)
  where s.side = 'client' and s.tier in ('proxy', 'edge') and s.waiting >= 3 and 2 * s.waiting >= s.connections and s.longest_seconds >= 2
),
serving as (
  select distinct host as serving_host, process_name as serving_who from samples where side = 'server' and waiting > 0
),
answers as (
  select host as answers_host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select host, netns, address, port, waiting, connections, unacknowledged, longest_seconds, visitors, who, failed, requests,
  opens or coalesce(failed >= 0.2 * requests and requests >= 10, false) as opens,
  case when address like '%:%' then concat('[', address, ']:', port) else concat(address, ':', port) end as destination,
  concat(case when server_process is null then '' else concat(server_process, ' at ') end, case when address like '%:%' then concat('[', address, ']:', port) else concat(address, ':', port) end) as service,
  -- What a pooler waits for is the database behind it.
  case port when 6432 then '6432, postgresql' when 6033 then '6033, mysqld' else concat(port, '') end as service_names,
  case port when 5432 then 'postgresql' when 6432 then 'pgbouncer, postgresql' when 3306 then 'mysqld' when 6033 then 'proxysql, mysqld' when 6379 then 'redis' when 27017 then 'mongodb' when 5672 then 'rabbitmq' when 9200 then 'elasticsearch' when 9092 then 'kafka' when 2379 then 'etcd'
    else case server_process when 'postgres' then 'postgresql' when 'mysqld' then 'mysqld' when 'mariadbd' then 'mysqld' when 'redis-server' then 'redis' when 'valkey-server' then 'redis' when 'mongod' then 'mongodb' end end as database_program,
  case when is_lost then 'lost' else 'received' end as state_text,
  case when is_lost then 'lost' else 'received' end as why_text,
  case when is_lost then 'lost' when is_database then 'database' else 'service' end as fix_text,
  case when is_database then 'db' else 'app' end as tier,
  case when coalesce(failed >= 0.2 * requests and requests >= 10, false) or longest_seconds >= 5 and visitors >= 3 and 2 * waiting >= connections then 'page' else 'mail' end as class
from named
left join links on link_host = server_host and link_who = server_process and link_who <> who
left join (select distinct entry_host, entry_program from entries) e on e.entry_host = server_host and e.entry_program = server_process
left join entries o on o.entry_host = server_host and o.entry_program = server_process and o.upstream_program = who
left join serving on serving_host = host and serving_who = who
left join answers on answers_host = host
where link_host is null and (e.entry_host is null or serving_host is not null and o.entry_host is null)
