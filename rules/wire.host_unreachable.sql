/*---
id = "wire.host_unreachable"
title = "Upstream host unreachable"
tier = "wire"
class = "page"
for = "0s"
every = "5s"
clear = "20s"
key = ["upstream"]
needs = ["log", "request"]
when = "select 1 from log where program = 'nginx' and message_template like '%while connecting to upstream' and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.blocked_on_store", "app.errors_quiet", "app.requests_stopped", "app.service_rejects",
  "app.service_unreachable", "wire.connect_unanswered", "app.slow", "app.slow_quiet",
  "app.throughput_drop", "client.aborts_499", "db.not_answering", "lb.canary_oscillation",
  "lb.too_few_healthy", "lb.uneven", "mysql.replica_broken", "proxy.bad_gateway",
  "proxy.haproxy_queue", "proxy.masked_errors", "proxy.retry_amplification", "proxy.retry_storm",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "wire.mtu_blackhole", "wire.syn_retries", "slo.burning", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "nginx on {host} cannot reach {upstream}: \"{reason}\" {failures} times in 30 s; {errors} requests got 502, 503 or 504"
why = "ARP for the address got no answer (after about 3 s), or a router reported that there is no route. The host is off, its link is down, or a route is missing. A stopped application answers with a reset instead (app.down), and a firewall that drops causes timeouts (wire.syn_blackhole)."
look_at = "`ip neigh show` on {host}: FAILED or INCOMPLETE for that address means that it is gone from the local network; `ip route get ADDRESS` shows the route in use. Does the host respond on its console?"
silent_when = "Fewer than 2 such lines in 30 s. IPv6 addresses of an upstream on a host without IPv6 (\"Network is unreachable\", and the next address is tried). Only nginx log lines count, at level `error` (its default) or more; members taken out by HAProxy's checks are covered by lb.too_few_healthy."
fix = "Take {upstream} out of the pool until its host or link is back (nginx: `down` after its `server` line and a reload; HAProxy: it is already out if its line has `check`), then repair host, cable or route. So that clients do not wait 3 s for it: nginx `proxy_connect_timeout 1s;` and `max_fails=2 fail_timeout=30s` for the member. Check: such lines end."
source = "fault lab F32c (EHOSTUNREACH after 3.06 s); connect(2); kernel net/ipv4/arp.c"
---*/
with lines as (
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as upstream,
    case when message_template like '%(101: %' then 'network is unreachable' else 'no route to host' end as reason
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and program = 'nginx' and message_template like 'connect() %) while connecting to upstream'
    and (message_template like '%(113: %' or (message_template like '%(101: %' and attrs['upstream'] not like '%://[%'))
),
failed as (
  select host, upstream, max(reason) as reason, count(*) as failures
  from lines
  where upstream is not null
  group by host, upstream
  having count(*) >= 2
),
answers as (
  select host, count(*) filter (where http_response_status_code in (502, 503, 504)) as errors
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select f.host, f.upstream, f.reason, f.failures, coalesce(a.errors, 0) as errors
from failed f left join answers a on a.host = f.host
