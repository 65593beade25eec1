/*---
id = "app.slow"
title = "Slow application behind a proxy"
tier = "app"
class = "mail"
for = "1s"
every = "1s"
clear = "10s"
key = ["upstream"]
prefers = ["disk.stuck", "disk.member_outlier", "disk.slow", "mem.thrash", "cpu.steal", "cpu.cgroup_throttled", "proxy.worker_blocked", "dns.resolver_slow"]
needs = ["request", "listener", "host_info"]
when = [
  "select 1 from request where upstream_response_seconds >= $threshold and ts > $now - interval '15 seconds' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '15 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host, proxy_backend, upstream_address
having count(upstream_response_seconds) > 0
  and (count(*) filter (where coalesce(upstream_header_seconds, upstream_response_seconds) - coalesce(upstream_connect_seconds, 0.0) >= $threshold)
      >= 0.04 * count(upstream_response_seconds)
    or 2 * count(*) filter (where ts > $now - interval '3 seconds'
      and coalesce(upstream_header_seconds, upstream_response_seconds) - coalesce(upstream_connect_seconds, 0.0) >= $threshold)
      >= greatest(count(upstream_response_seconds) filter (where ts > $now - interval '3 seconds'), 8))
limit 1""",
]
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning",
  "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "{upstream} is slow: p95 {app_p95:duration}, p50 {app_p50:duration} over {window_seconds} s ({requests} requests); {app_share:%} of the time is in the application, connect p95 {connect_p95:duration}; {past_text}"
why = "The proxy measures the time between the connection to the application and the first byte of its response. Connecting is fast, so neither the network nor a full accept queue is to blame, and clients read responses as fast as before: the application itself, or something it waits for, is slow."
look_at = "One instance or all of them? `select upstream_address, count(*), percentile(upstream_header_seconds, 0.95) from request … group by 1`. One: that host or its last deploy. All: what they share below (database, cache, disk), or one route: group by url_path. Then its CPU (cpu_stat, cgroup_stat) and its own log."
silent_when = "Fewer than 20 proxied requests in 15 s; p95 below the threshold (250 ms, unless one was mined), and in the last 3 s fewer than 8 requests or a median below it (blocked clients send no more requests, so earlier fast ones dominate for a while); less than 80 % of the time in the application; or, with history, p95 below 2× the calmest of four slices of the last hour. It is a page when p95 is above 1 s and was so 10 s before, which leaves time to name a deeper cause first. 250 ms is a default: `weir thresholds app.slow` gives the value for this fleet; 80 % is an opinion. Requests to a port whose accept queue was not empty for 4 s or more and did not shrink, without a response in that time, do not count: that process is stuck, not slow (tcp.accept_queue_high). A slow reader does not count, because only the time to the first byte is measured. Long polls, event streams and slow reports look the same: exclude them with a copy of this rule and a condition on url_path."
fix = "Work on {upstream}, not on the proxy: find the slow route ({slowest_path} is the slowest of the busy ones) and profile it, add an index or a cache, or raise its workers if all are busy while CPUs are idle. Meanwhile limit the damage at the proxy: nginx `proxy_read_timeout 10s;` and `proxy_next_upstream_tries 1;` (retries make a slow application slower). Check: app_p95 of this finding falls."
source = "subtraction of the proxy's times: upstream_header_seconds - upstream_connect_seconds; fault lab F08, F40"
[text.past_text]
none = "no history to compare with"
known = "p95 in the last hour: {past_p95:duration}"
[chart]
title = "Time in the application, p50 and p95"
unit = "s"
sql = """
select date_bin(interval '5 seconds', ts) as ts,
  percentile(first_byte_seconds, 0.5) as p50, percentile(first_byte_seconds, 0.95) as p95
from proxy_request
where host = {host} and upstream = {upstream} and ts > $now - interval '10 minutes' and ts <= $now
group by 1 order by 1"""
[threshold]
value = 0.25
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, upstream as subject, max(p95) as value
from (
  select date_bin(interval '15 seconds', ts) as slice, host, upstream, percentile(app_seconds, 0.95) as p95
  from proxy_request
  where ts >= $from and ts < $to and upstream_response_seconds is not null and upstream is not null
  group by 1, 2, 3
  having count(*) >= 20
) slices
group by 1, 2, 3"""
---*/
with steps as (
  select host, netns, server_address, server_port, ts, sum(accept_queue_length) as length,
    lag(sum(accept_queue_length)) over (partition by host, netns, server_address, server_port order by ts) as length_before
  from listener
  where ts > $now - interval '15 seconds' and ts <= $now
  group by host, netns, server_address, server_port, ts
),
own as (
  select host as own_host, concat(' ', last_value(addresses order by ts), ' ') as own_addresses
  from host_info where ts > $now - interval '2 hours' and ts <= $now group by host
),
answering as (
  -- Closed-loop clients keep a queue at one length, though it moves: the log shows responses.
  select host as answering_host, try_cast(split_part(upstream_address, ':', -1) as bigint) as answering_port,
    regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] as answering_address, max(ts) as answered_ts
  from request
  where ts > $now - interval '15 seconds' and ts <= $now and tier in ('proxy', 'edge') and upstream_header_seconds is not null
  group by 1, 2, 3
),
emptied as (
  select host as emptied_host, netns as emptied_netns, server_address as emptied_address, server_port as emptied_port, max(ts) as emptied_ts
  from steps where length = 0
  group by 1, 2, 3, 4
),
waiting as (
  -- Since the queue was last empty. Clients give up after seconds, so the first of them are logged by then.
  select host, netns, server_address, server_port, min(ts) as since_ts, count(*) as samples, count(*) filter (where length < length_before) as falls
  from steps
  left join emptied on emptied_host = host and emptied_netns = netns and emptied_address = server_address and emptied_port = server_port
  where emptied_ts is null or ts > emptied_ts
  group by host, netns, server_address, server_port
),
stuck as (
  -- A process that accepts nothing is not slow, and a slow one takes a connection from time to time.
  select host as stuck_host, max(own_addresses) as stuck_own, server_address as stuck_address, server_port as stuck_port
  from waiting
  left join own on own_host = host
  left join answering on answering_port = server_port and (server_address in ('0.0.0.0', '::') or server_address = answering_address)
    and (host = answering_host and (server_address = answering_address or answering_address like '127.%' or answering_address = '::1') or own_addresses like concat('% ', answering_address, ' %'))
    and answered_ts > since_ts + interval '1 second'
  where samples >= 4 and falls = 0 and answering_port is null
  group by host, server_address, server_port
),
recent as (
  select host, upstream, url_path, duration_seconds, upstream_status_code, app_seconds as app,
    coalesce(upstream_connect_seconds, 0.0) as connect,
    ts <= $now - interval '10 seconds' as is_early, ts > $now - interval '3 seconds' as is_last
  from proxy_request
  left join stuck on stuck_port = try_cast(split_part(upstream_address, ':', -1) as bigint)
    and (stuck_address in ('0.0.0.0', '::') or stuck_address = regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1])
    and (stuck_host = host and (stuck_address = regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] or regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] like '127.%' or regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1] = '::1') or stuck_own like concat('% ', regexp_match(upstream_address, '^\[?([^\]]*)\]?:[0-9]+$')[1], ' %'))
  where stuck_port is null and ts > $now - interval '15 seconds' and ts <= $now and upstream_response_seconds is not null and upstream is not null
),
measured as (
  select host, upstream, percentile(app, 0.95) >= $threshold as is_slow, count(*) as all_requests,
    count(*) filter (where is_last) as last_requests,
    percentile(app, 0.95) as all_p95, percentile(app, 0.95) filter (where is_last) as last_p95,
    percentile(app, 0.5) as all_p50, percentile(app, 0.5) filter (where is_last) as last_p50,
    percentile(app, 0.95) filter (where is_early) as early_p95,
    percentile(connect, 0.95) as connect_p95,
    sum(app) / greatest(sum(duration_seconds), 0.000001) as app_share,
    count(*) filter (where upstream_status_code >= 500) as errors
  from recent
  group by host, upstream
),
now_ as (
  -- The last 15 s, or the last 3 s if most requests of the 15 s were fast.
  select *, case when is_slow then 15 else 3 end as window_seconds,
    case when is_slow then all_requests else last_requests end as requests,
    case when is_slow then all_p95 else last_p95 end as app_p95,
    case when is_slow then all_p50 else last_p50 end as app_p50
  from measured
  where all_requests >= 20 and (is_slow or last_requests >= 8 and last_p50 >= $threshold)
),
paths as (
  select host, upstream, url_path, avg(app) as app_mean,
    row_number() over (partition by host, upstream order by case when count(*) >= 5 then 0 else 1 end, avg(app) desc) as place
  from recent
  group by host, upstream, url_path
),
past_rows as (
  select 1 as slice, host, upstream, first_byte_seconds from proxy_request
  where ts > $now - interval '75 seconds' and ts <= $now - interval '60 seconds'
  union all select 2 as slice, host, upstream, first_byte_seconds from proxy_request
  where ts > $now - interval '315 seconds' and ts <= $now - interval '300 seconds'
  union all select 3 as slice, host, upstream, first_byte_seconds from proxy_request
  where ts > $now - interval '915 seconds' and ts <= $now - interval '900 seconds'
  union all select 4 as slice, host, upstream, first_byte_seconds from proxy_request
  where ts > $now - interval '3555 seconds' and ts <= $now - interval '3540 seconds'
),
past as (
  select host, upstream, min(p95) as past_p95
  from (
    select host, upstream, percentile(first_byte_seconds, 0.95) as p95
    from past_rows where upstream is not null and first_byte_seconds is not null
    group by slice, host, upstream having count(*) >= 20
  ) slices
  group by host, upstream
),
-- Chained proxies: the outer proxy's wait for the inner one is the same time as the inner one's wait.
fronts as (
  select distinct server_port from listener
  where tier in ('proxy', 'edge') and ts > $now - interval '10 seconds' and ts <= $now
),
outer_hops as (
  select distinct n.host, n.upstream
  from now_ n
  join fronts f on f.server_port = cast((regexp_match(n.upstream, ':([0-9]+)$'))[1] as bigint)
  join now_ inner_hop on inner_hop.upstream <> n.upstream and inner_hop.app_p95 >= 0.5 * n.app_p95
)
select n.host, n.upstream, n.window_seconds, n.requests, n.errors, n.app_p95, n.app_p50, n.connect_p95, n.app_share,
  p.past_p95, coalesce(s.url_path, 'unknown') as slowest_path, s.app_mean as slowest_path_mean,
  case when p.past_p95 is null then 'none' else 'known' end as past_text,
  -- Page only once a deeper cause had time to show: it needs some seconds more to be detected.
  case when n.app_p95 >= 1.0 and n.early_p95 >= 1.0 then 'page' else 'mail' end as class,
  p.past_p95 is null or n.app_p95 >= 2 * p.past_p95 as opens
from now_ n
left join past p on p.host = n.host and p.upstream = n.upstream
left join paths s on s.host = n.host and s.upstream = n.upstream and s.place = 1
left join outer_hops o on o.host = n.host and o.upstream = n.upstream
where n.app_share >= 0.8 and o.upstream is null
