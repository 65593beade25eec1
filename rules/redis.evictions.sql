/*---
id = "redis.evictions"
title = "Redis out of memory: keys evicted or writes refused"
tier = "db"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["database_address"]
equal = ["service_names"]
needs = ["db_server"]
when = "select 1 from db_server where (evicted_keys_increase > 0 or writes_refused_increase > 0) and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.requests_stopped", "app.slow", "app.slow_quiet", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak", "tcp.listen_overflow",
  "unix.accept_queue_full", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "Redis at {server_address}"
summary = "Redis at {server_address} {what_text} in 30 s: {memory_bytes:bytes} of {memory_limit_bytes:bytes} used, maxmemory_policy {eviction_policy}"
why = "{why_text}"
look_at = "`INFO memory` and `redis-cli --bigkeys`: what grew? Keys without a TTL (`INFO keyspace`: keys against expires) stay forever. A replica's output buffer and fragmentation count as memory as well."
silent_when = "No eviction and no refused write within 30 s. A cache (`purpose = \"cache\"` in `[[databases]]`, or without it a policy allkeys-…) evicts by design: then it is a note, and only from 100 keys/s on."
fix = "{fix_text} Check: evicted_keys_total and writes_refused_total of db_server stop rising."
source = "fault lab F23 (12,211 keys thrown out); redis.io, \"Key eviction\"; INFO errorstats"
[text.what_text]
refused = "refused {refused} writes"
evicted = "evicted {evicted} keys"
[text.why_text]
refused = "Every client write fails with OOM until memory is free: sessions, queues and counters stop."
cache = "The cache is smaller than its working set: the database behind it must rebuild evicted entries."
store = "Evicted keys are lost: sessions end and jobs vanish, without an error to any client."
[text.fix_text]
cache = "Give it more memory: `CONFIG SET maxmemory {double_bytes}` on {server_address} where the host has it, and the same in redis.conf; or shorten the TTLs."
store = "Give it more memory (`CONFIG SET maxmemory {double_bytes}` on {server_address}, and the same in redis.conf) and set TTLs on expendable keys; keep data that must not be lost in a separate Redis with `maxmemory-policy noeviction`, so that full memory is a visible error."
[chart]
title = "Keys evicted and writes refused"
unit = ""
sql = """
select ts, evicted_keys_increase as thrown_out, writes_refused_increase as refused from db_server
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with sums as (
  select host, server_address, max(purpose) as purpose, max(eviction_policy) as eviction_policy,
    max(memory_bytes) as memory_bytes, max(memory_limit_bytes) as memory_limit_bytes,
    coalesce(sum(evicted_keys_increase), 0) as evicted, coalesce(sum(writes_refused_increase), 0) as refused
  from db_server
  where system = 'redis' and ts > $now - interval '30 seconds' and ts <= $now
  group by host, server_address
),
judged as (
  select *, coalesce(purpose, case when eviction_policy like 'allkeys-%' then 'cache' else 'store' end) as used_as
  from sums
)
select host, server_address, server_address as database_address,
  -- The port, and the program for clients that name no port.
  concat_ws(', ', regexp_match(server_address, ':([0-9]+)$')[1], 'redis') as service_names, memory_bytes, memory_limit_bytes, eviction_policy, evicted, refused, used_as,
  coalesce(memory_limit_bytes, 0) * 2 as double_bytes,
  case when refused > 0 then 'refused' else 'evicted' end as what_text,
  case when refused > 0 then 'refused' when used_as = 'cache' then 'cache' else 'store' end as why_text,
  case when used_as = 'cache' then 'cache' else 'store' end as fix_text,
  case when refused > 0 then 'page'
    when used_as = 'cache' then 'note'
    when purpose = 'store' then 'page'
    else 'mail' end as class
from judged
where refused > 0 or (evicted > 0 and used_as = 'store') or evicted >= 3000
