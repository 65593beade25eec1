/*---
id = "app.slow_outlier"
title = "One pool member is slow, its siblings are not"
tier = "app"
class = "mail"
for = "3s"
every = "5s"
clear = "60s"
key = ["member", "pool"]
needs = ["request", "log", "listener", "config_directive", "host_info"]
when = [
  """
select 1 from request where upstream_response_seconds >= 0.25 and ts > $now - interval '15 seconds' and ts <= $now
union all select 1 from log where program = 'nginx' and body like 'upstream timed out%' and ts > $now - interval '60 seconds' and ts <= $now limit 1""",
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, proxy_backend, proxy_server, upstream_address
having count(*) filter (where upstream_response_seconds >= 0.25) >= 5
  and count(*) filter (where upstream_response_seconds >= 0.25) >= 0.05 * count(*)
union all select 1 from log
where program = 'nginx' and body like 'upstream timed out%' and ts > $now - interval '60 seconds' and ts <= $now
group by host having count(*) >= 3 limit 1""",
]
explains = [
  "app.requests_stopped", "app.slow", "app.slow_quiet", "client.aborts_499", "lb.uneven",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.masked_errors",
  "proxy.retry_amplification", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning", "proxy.upstream_hangs",
]
subject = "{member} in {pool}"
summary = "{summary_text}"
why = "All members get the same kind of requests, so slowness of one member only comes from that member: its CPU or disk, a garbage collector, a connection pool, a cold cache, a noisy neighbour, its path. A shared cause (database, network) would slow all members down. In the pool's own median it does not show."
look_at = "What is different there: start time, version, CPU and disk (cpu_stat, cgroup_stat, disk_stat), its garbage-collector log, threads or connections in use. `select upstream_address, count(*), percentile(upstream_header_seconds, 0.5), percentile(upstream_header_seconds, 0.95) from request … group by 1`."
silent_when = "Fewer than 5 slow requests of the member in 15, 60 or 120 s (the shortest of these with 20 requests of the member and 20 of its siblings), or a share of slow requests that chance explains: its 99 % interval (Wilson) must lie above 5 % and above twice that of the siblings. Slow is above 250 ms, 1 s or 4 s, whichever tells them apart best. Requests that were tried at several members do not count, because proxies sum their times. A log without upstream times shows it only by timeouts in nginx's error log. A member whose accept queue only grows is stuck (tcp.accept_queue_high). Canaries that get different traffic look the same."
fix = "Take {member} out of the pool (nginx: `down` after its `server` line, then `nginx -t && nginx -s reload`; HAProxy: `set server BACKEND/NAME state drain`), and keep its log and a stack dump before a restart. Send it less next time: nginx `least_conn;`, HAProxy `balance leastconn`, and a short `proxy_read_timeout` with `proxy_next_upstream_tries 2`.{format_text} Check: the pool's p95 falls and its siblings' p95 does not rise. If theirs rises, the traffic was the cause, not the member."
source = "field notes on grey failures; E. B. Wilson, Probable inference (1927); outlier detection of Envoy"
[text.level_text]
quarter = "250 ms"
one = "1 s"
four = "4 s"
[text.summary_text]
measured = "{member} in {pool} is slow: {slow} of {requests} requests over {level_text} in {window_seconds} s (99 % interval: {low_ratio:%} to {high_ratio:%}), p95 {p95:duration}; other {siblings} in the pool: {sibling_slow} of {sibling_requests}"
timeouts = "{member} in {pool} does not answer in time: {slow} of {all_timeouts} upstream timeouts in 60 s are its own, {sibling_slow} of the other {siblings} in the pool; the log has no upstream times, so its p95 cannot be told"
[text.format_text]
none = ""
times = " To see times per member, add `$upstream_addr $upstream_status $upstream_connect_time $upstream_header_time $upstream_response_time` to the log_format."
[chart]
title = "Time in this member and in the pool, p95"
unit = "s"
sql = """
select date_bin(interval '10 seconds', ts) as ts,
  percentile(first_byte_seconds, 0.95) filter (where coalesce(nullif(proxy_server, ''), upstream_address) = {member}) as member,
  percentile(first_byte_seconds, 0.95) filter (where coalesce(nullif(proxy_server, ''), upstream_address) <> {member}) as others
from proxy_request where host = {host} and ts > $now - interval '15 minutes' and ts <= $now group by 1 order by 1"""
---*/
with config as (
  select host, directive, context,
    case when directive = 'server' then split_part(arguments, ' ', 1) else regexp_match(arguments, '://([^/]+)')[1] end as address,
    rank() over (partition by host, file order by ts desc) as place
  from config_directive
  where program = 'nginx' and (directive = 'proxy_pass' or (directive = 'server' and context like '%upstream %'))
    and ts > $now - interval '2 hours' and ts <= $now
),
addresses as (
  select host, address,
    max(case when directive = 'server' then regexp_match(context, 'upstream ([^/]+)')[1] end) as pool,
    max(case when directive = 'proxy_pass' then 1 else 0 end) as is_alone
  from config
  where place = 1 and address is not null
  group by host, address
),
steps as (
  select host, netns, server_address, server_port, ts, sum(accept_queue_length) as length,
    lag(sum(accept_queue_length)) over (partition by host, netns, server_address, server_port order by ts) as length_before
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_address, server_port, ts
),
own as (
  select host as own_host, concat(' ', last_value(addresses order by ts), ' ') as own_addresses
  from host_info where ts > $now - interval '2 hours' and ts <= $now group by host
),
answering as (
  -- Closed-loop clients keep a queue at one length, though it moves: the log shows responses.
  select distinct host as answering_host, try_cast(split_part(upstream_address, ':', -1) as bigint) as answering_port,
    regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] as answering_address
  from request
  where ts > $now - interval '10 seconds' and ts <= $now and tier in ('proxy', 'edge') and upstream_header_seconds is not null
),
stuck as (
  select host as stuck_host, max(own_addresses) as stuck_own, server_address as stuck_address, server_port as stuck_port from (
    select host, server_address, server_port, count(*) as samples, min(length) as least, count(*) filter (where length < length_before) as falls
    from steps group by host, netns, server_address, server_port
  ) queues
  left join own on own_host = host
  left join answering on answering_port = server_port and (server_address in ('0.0.0.0', '::') or server_address = answering_address)
    and (host = answering_host and (server_address = answering_address or answering_address like '127.%' or answering_address = '::1') or own_addresses like concat('% ', answering_address, ' %'))
  where samples >= 8 and least >= 1 and falls = 0 and answering_port is null
  group by host, server_address, server_port
),
counted as (
  select host, coalesce(nullif(proxy_backend, ''), '') as backend, coalesce(server_address, 'any name') as server, upstream_address,
    coalesce(nullif(proxy_server, ''), upstream_address) as member,
    count(*) as n_120, count(*) filter (where ts > $now - interval '60 seconds') as n_60, count(*) filter (where ts > $now - interval '15 seconds') as n_15,
    count(*) filter (where app_seconds >= 0.25) as q_120, count(*) filter (where app_seconds >= 1) as o_120, count(*) filter (where app_seconds >= 4) as f_120,
    count(*) filter (where app_seconds >= 0.25 and ts > $now - interval '60 seconds') as q_60,
    count(*) filter (where app_seconds >= 1 and ts > $now - interval '60 seconds') as o_60,
    count(*) filter (where app_seconds >= 4 and ts > $now - interval '60 seconds') as f_60,
    count(*) filter (where app_seconds >= 0.25 and ts > $now - interval '15 seconds') as q_15,
    count(*) filter (where app_seconds >= 1 and ts > $now - interval '15 seconds') as o_15,
    count(*) filter (where app_seconds >= 4 and ts > $now - interval '15 seconds') as f_15,
    percentile(app_seconds, 0.95) as p95
  from proxy_request
  where ts > $now - interval '120 seconds' and ts <= $now and coalesce(nullif(proxy_server, ''), upstream_address) is not null
    and upstream_response_seconds is not null and coalesce(upstream_tries, 1) <= 1
  group by 1, 2, 3, 4, 5
),
members as (
  select c.host, c.member, max(c.upstream_address) as upstream_address,
    case when c.backend <> '' then c.backend when a.pool is not null then a.pool
         else concat(c.server, ', port ', split_part(c.upstream_address, ':', -1)) end as pool,
    sum(n_120) as n_120, sum(n_60) as n_60, sum(n_15) as n_15, sum(q_120) as q_120, sum(o_120) as o_120, sum(f_120) as f_120,
    sum(q_60) as q_60, sum(o_60) as o_60, sum(f_60) as f_60, sum(q_15) as q_15, sum(o_15) as o_15, sum(f_15) as f_15, max(p95) as p95
  from counted c
  left join addresses a on a.host = c.host and a.address = c.upstream_address
  where c.backend <> '' or a.pool is not null or coalesce(a.is_alone, 0) = 0
  group by 1, 2, 4
),
shares as (
  select host, pool, member, upstream_address, p95, 15 as window_seconds, 'quarter' as level_text, n_15 as requests, q_15 as slow from members
  union all select host, pool, member, upstream_address, p95, 15, 'one' as level_text, n_15, o_15 from members
  union all select host, pool, member, upstream_address, p95, 15, 'four' as level_text, n_15, f_15 from members
  union all select host, pool, member, upstream_address, p95, 60, 'quarter' as level_text, n_60, q_60 from members
  union all select host, pool, member, upstream_address, p95, 60, 'one' as level_text, n_60, o_60 from members
  union all select host, pool, member, upstream_address, p95, 60, 'four' as level_text, n_60, f_60 from members
  union all select host, pool, member, upstream_address, p95, 120, 'quarter' as level_text, n_120, q_120 from members
  union all select host, pool, member, upstream_address, p95, 120, 'one' as level_text, n_120, o_120 from members
  union all select host, pool, member, upstream_address, p95, 120, 'four' as level_text, n_120, f_120 from members
),
pools as (
  select *, count(*) over w - 1 as siblings, sum(requests) over w - requests as sibling_requests, sum(slow) over w - slow as sibling_slow
  from shares
  window w as (partition by host, pool, window_seconds, level_text)
),
judged as (
  -- Wilson's interval at 99 %: z = 2.58, z² = 6.66.
  select *,
    (slow + 3.33 - 2.58 * sqrt(cast(slow as double) * (requests - slow) / greatest(requests, 1) + 1.665)) / (requests + 6.66) as low_ratio,
    (slow + 3.33 + 2.58 * sqrt(cast(slow as double) * (requests - slow) / greatest(requests, 1) + 1.665)) / (requests + 6.66) as high_ratio,
    (sibling_slow + 3.33 + 2.58 * sqrt(cast(sibling_slow as double) * (sibling_requests - sibling_slow) / greatest(sibling_requests, 1) + 1.665))
      / (sibling_requests + 6.66) as sibling_high_ratio
  from pools
  where siblings >= 1 and slow >= 5 and sibling_requests >= 5 and (window_seconds = 120 or requests >= 20 and sibling_requests >= 20)
),
outliers as (
  select j.*, row_number() over (
      partition by host, pool, member
      order by window_seconds, low_ratio / sibling_high_ratio desc, case level_text when 'four' then 1 when 'one' then 2 else 3 end
    ) as place
  from judged j
  left join stuck on stuck_port = try_cast(split_part(upstream_address, ':', -1) as bigint)
    and (stuck_address in ('0.0.0.0', '::') or stuck_address = regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1])
    and (stuck_host = j.host and (stuck_address = regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] or regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] like '127.%' or regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] = '::1') or stuck_own like concat('% ', regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1], ' %'))
  where low_ratio >= 0.05 and low_ratio > 2 * sibling_high_ratio and stuck_port is null
),
-- Without times: one member of an `upstream` block has the timeouts.
lines as (
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as member, count(*) as timeouts,
    date_part('epoch', max(ts)) - date_part('epoch', min(ts)) as spread_seconds
  from log
  where program = 'nginx' and body like 'upstream timed out%reading response header from upstream%'
    and ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2
),
pool_sizes as (
  select host, pool, count(*) as members from addresses where pool is not null group by host, pool
),
timed_out as (
  select l.host, a.pool, l.member, l.timeouts, l.spread_seconds, s.members - 1 as siblings,
    sum(l.timeouts) over (partition by l.host, a.pool) as all_timeouts
  from lines l
  join addresses a on a.host = l.host and a.address = l.member and a.pool is not null
  join pool_sizes s on s.host = a.host and s.pool = a.pool
)
select host, pool, member, 'measured' as summary_text, level_text, window_seconds, requests, slow, low_ratio, high_ratio,
  p95, siblings, sibling_requests, sibling_slow, cast(null as bigint) as all_timeouts, 'none' as format_text,
  case when low_ratio >= 0.2 and level_text <> 'quarter' then 'page' else 'mail' end as class
from outliers where place = 1
union all
select t.host, t.pool, t.member, 'timeouts' as summary_text, 'one' as level_text, 60 as window_seconds, null, t.timeouts, null, null,
  null, t.siblings, null, t.all_timeouts - t.timeouts, t.all_timeouts, 'times' as format_text, 'page' as class
from timed_out t
left join outliers o on o.host = t.host and o.member = t.member and o.place = 1
left join stuck on stuck_port = try_cast(split_part(t.member, ':', -1) as bigint)
  and (stuck_address in ('0.0.0.0', '::') or stuck_address = regexp_match(t.member, '^\[?([^\]]*)\]?:[0-9]+$')[1])
  and (stuck_host = t.host and (stuck_address = regexp_match(t.member, '^\[?([^\]]*)\]?:[0-9]+$')[1] or regexp_match(t.member, '^\[?([^\]]*)\]?:[0-9]+$')[1] like '127.%' or regexp_match(t.member, '^\[?([^\]]*)\]?:[0-9]+$')[1] = '::1') or stuck_own like concat('% ', regexp_match(t.member, '^\[?([^\]]*)\]?:[0-9]+$')[1], ' %'))
where o.member is null and stuck_port is null and t.siblings >= 1 and t.timeouts >= 3 and t.spread_seconds >= 3 and t.timeouts >= 0.9 * t.all_timeouts
