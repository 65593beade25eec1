/*---
id = "client.slow_reader"
title = "Slow clients: responses wait for the reader"
tier = "client"
class = "note"
for = "1s"
every = "1s"
clear = "10s"
key = ["server", "server_port"]
needs = ["request"]
when = [
  "select 1 from request where duration_seconds - coalesce(upstream_response_seconds, 0.0) >= $threshold and ts > $now - interval '30 seconds' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '30 seconds' and ts <= $now and tier in ('proxy', 'edge')
  and duration_seconds >= $threshold and duration_seconds - coalesce(upstream_response_seconds, 0.0) >= $threshold
  and (upstream_response_seconds is not null or response_bytes >= 65536)
group by host, server_address, server_port
having count(*) >= 5
limit 1""",
]
subject = "clients of {server}{port_text}"
summary = "clients of {server}{port_text} are slow readers: p95 {client_p95:duration} after the response was ready ({requests} requests in {window_seconds} s); {slow_requests} slow requests spend {client_share:%} of their time so; application p95 {app_p95:duration}"
why = "The application's response is complete and the proxy waits for the client to read it (or, with uploads, to send). The servers are not at fault; without this subtraction the same requests look like a slow site."
look_at = "Which clients: `select client_address, user_agent_original, count(*), avg(response_bytes) from request … group by 1, 2`. One network (a carrier), one kind of client, or large downloads? Packet loss or round-trip time to them: RetransSegs in tcp_stat."
silent_when = "Fewer than 20 requests in 30 s; fewer than 5 slow ones; p95 of the client's time below the threshold (1 s is a default: `weir thresholds client.slow_reader` gives the value for this fleet) and, in the last 6 s, less than half of the total request time spent so (fast clients send more requests and would hide the slow ones); or less than 80 % of the slow requests' time is the client's. HAProxy logs one time for the application's body and the client together, so its rows do not count; nor do small responses without an upstream. Large downloads are slow by nature: it is only a note."
fix = "The servers are not slow: leave workers and timeouts of the application alone. Let the proxy buffer the response so that no application worker waits for the client (nginx `proxy_buffering on;`, the default, and `proxy_buffers 16 16k;`), end dead connections (`send_timeout 30s;`), subtract slow clients from latency alerts (column client_p95 of this finding), and send less to them: compression, smaller images, a CDN near them. Check: nothing to do here; app.slow is the rule that would name the application."
source = "subtraction of the proxy's times: duration_seconds - upstream_response_seconds; fault lab F26 (request 25.3 s, upstream 0.026 s)"
[chart]
title = "Client time and application time (p95)"
unit = "s"
sql = """
select date_bin(interval '5 seconds', ts) as ts,
  percentile(duration_seconds - coalesce(upstream_response_seconds, 0.0), 0.95) as client,
  percentile(coalesce(upstream_response_seconds, 0.0), 0.95) as application
from request
where tier in ('proxy', 'edge') and host = {host} and coalesce(server_address, 'any name') = {server}
  and ts > $now - interval '10 minutes' and ts <= $now
group by 1 order by 1"""
[threshold]
value = 1.0
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '30 seconds', ts) as slice, host, concat(coalesce(server_address, 'any name'), ':', coalesce(server_port, 0)) as subject,
    percentile(greatest(duration_seconds - coalesce(upstream_response_seconds, 0.0) - coalesce(request_read_seconds, 0.0) - coalesce(queue_seconds, 0.0), 0.0), 0.95) as value
  from request
  where ts >= $from and ts < $to and tier in ('proxy', 'edge') and duration_seconds is not null and coalesce(program, '') <> 'haproxy'
    and (upstream_response_seconds is not null or coalesce(response_bytes, 0) >= 65536)
  group by 1, 2, 3
  having count(*) >= 20
) slices
group by 1, 2, 3"""
---*/
with times as (
  select host, coalesce(server_address, 'any name') as server, coalesce(server_port, 0) as server_port, response_bytes,
    ts > $now - interval '6 seconds' as is_last,
    duration_seconds as total,
    coalesce(upstream_response_seconds, 0.0) as application,
    greatest(duration_seconds - coalesce(upstream_response_seconds, 0.0) - coalesce(request_read_seconds, 0.0) - coalesce(queue_seconds, 0.0), 0.0) as client
  from request
  where ts > $now - interval '30 seconds' and ts <= $now
    and tier in ('proxy', 'edge') and duration_seconds is not null
    and coalesce(program, '') <> 'haproxy'
    and (upstream_response_seconds is not null or coalesce(response_bytes, 0) >= 65536)
),
sums as (
  select host, server, server_port, percentile(client, 0.95) >= $threshold as is_common,
    count(*) as requests, count(*) filter (where is_last) as last_requests,
    count(*) filter (where client >= $threshold) as slow_requests,
    count(*) filter (where is_last and client >= $threshold) as last_slow_requests,
    percentile(client, 0.95) as client_p95, percentile(client, 0.95) filter (where is_last) as last_client_p95,
    percentile(application, 0.95) as app_p95,
    sum(client) filter (where client >= $threshold) / sum(total) filter (where client >= $threshold) as client_share,
    sum(client) filter (where is_last and client >= $threshold) / greatest(sum(total) filter (where is_last), 0.000001) as last_share,
    avg(response_bytes) filter (where client >= $threshold) as slow_response_bytes_mean
  from times
  group by host, server, server_port
  having count(*) >= 20 and count(*) filter (where client >= $threshold) >= 5
)
select host, server, server_port, app_p95, client_share, slow_response_bytes_mean,
  case when server_port > 0 then concat(':', server_port) else '' end as port_text,
  case when is_common then 30 else 6 end as window_seconds,
  case when is_common then requests else last_requests end as requests,
  case when is_common then slow_requests else last_slow_requests end as slow_requests,
  case when is_common then client_p95 else last_client_p95 end as client_p95
from sums
where client_share >= 0.8 and (is_common or (last_slow_requests >= 5 and last_share >= 0.5))
