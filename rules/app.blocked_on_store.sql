/*---
id = "app.blocked_on_store"
title = "Application blocked on its database"
tier = "db"
class = "mail"
for = "4s"
every = "4s"
clear = "16s"
key = ["application", "store"]
needs = ["span", "wire_request", "request"]
when = [
  "select 1 from wire_request where network_protocol_name in ('mysql', 'postgresql', 'redis', 'mongodb') and ts > $now - interval '20 seconds' and ts <= $now union all select 1 from span where kind = 'client' and ts > $now - interval '20 seconds' and ts <= $now limit 1",
  "select 1 from wire_request where network_protocol_name in ('mysql', 'postgresql', 'redis', 'mongodb') and think_seconds >= 0.05 and ts > $now - interval '20 seconds' and ts <= $now union all select 1 from span where kind = 'client' and duration_seconds >= 0.05 and ts > $now - interval '20 seconds' and ts <= $now limit 1",
]
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_queue",
  "proxy.retry_amplification", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "unix.accept_queue_full", "slo.burning", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "{store} behind {application}"
summary = "{application} on {host} waits for {store} {share:%} of its time over 20 s: {store_mean:duration} per query ({store_requests} queries), {app_mean:duration} per request ({app_requests} requests){operation_text}"
why = "The application's latency is the database's latency. More workers or a faster CPU for the application change nothing, and its own profile shows only waiting."
look_at = "What the database waits for: a lock (pg.lock_pileup), its disk (disk.slow, disk.stuck), or a query without an index: PostgreSQL `select calls, mean_exec_time, query from pg_stat_statements order by total_exec_time desc limit 5`, MySQL `select * from sys.statement_analysis limit 5`, Redis `SLOWLOG GET`. Many fast queries per request ({questions_each:.1} here) point to a loop in the application (N+1)."
silent_when = "Fewer than 20 requests or 20 queries in 20 s, a mean request time below 100 ms, or less than half of it spent in the store (defaults). Concurrent queries count separately. Needs traces (OTLP client spans with `db.system`) or a tap (`[wire]` with the ports of application and database, unencrypted)."
fix = "Work on {store}, not on {application}: end the blocking session, add the index that the slowest statement lacks, or give it a faster disk. In the application, set a timeout for each query well below the proxy's, and use a pool that rejects when it is full, so that one slow store does not occupy all workers. Check: store_mean of this finding falls."
source = "blame by subtraction; fault lab F40 (store's disk throttled: 96 % of the time in the application was the store's)"
---*/
with traced_store as (
  select host, coalesce(program, host) as application, coalesce(attrs['db.system.name'], attrs['db.system']) as store,
    count(*) as n, sum(duration_seconds) as seconds, max(name) as operation
  from span
  where kind = 'client' and coalesce(attrs['db.system.name'], attrs['db.system']) is not null
    and ts > $now - interval '20 seconds' and ts <= $now
  group by 1, 2, 3
),
traced_app as (
  select host, coalesce(program, host) as application, count(*) as n, sum(duration_seconds) as seconds
  from request
  where tier = 'app' and ts > $now - interval '20 seconds' and ts <= $now
  group by 1, 2
),
wired as (
  select host, source, network_protocol_name as protocol, tier, count(*) as n,
    sum(think_seconds) as seconds, max(operation) as operation
  from wire_request
  where think_seconds is not null and ts > $now - interval '20 seconds' and ts <= $now
  group by 1, 2, 3, 4
),
wired_app as (
  select *, row_number() over (partition by host, source order by case tier when 'wire_upstream' then 0 else 1 end) as place
  from wired where protocol = 'http'
),
pairs as (
  select s.host, s.application, s.store, s.n as store_requests, s.seconds as store_seconds, s.operation,
    a.n as app_requests, a.seconds as app_seconds
  from traced_store s
  join traced_app a on a.host = s.host and a.application = s.application
  union all
  select s.host, concat('the application seen on ', s.source), s.protocol, s.n, s.seconds, s.operation, a.n, a.seconds
  from wired s
  join wired_app a on a.host = s.host and a.source = s.source and a.place = 1
  where s.protocol in ('mysql', 'postgresql', 'redis', 'mongodb')
)
select host, application, store, store_requests, app_requests, operation,
  store_seconds / store_requests as store_mean, app_seconds / app_requests as app_mean,
  cast(store_requests as double) / app_requests as questions_each,
  least(store_seconds / app_seconds, 1.0) as share,
  case when operation is null then '' else concat(' (such as ', operation, ')') end as operation_text
from pairs
where store_requests >= 20 and app_requests >= 20
  and app_seconds >= 0.1 * app_requests and store_seconds > 0.5 * app_seconds
