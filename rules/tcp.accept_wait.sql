/*---
id = "tcp.accept_wait"
title = "Connections wait in the accept queue"
tier = "app"
class = "mail"
for = "4s"
every = "2s"
clear = "10s"
key = ["netns", "server_port"]
needs = ["tcp_accept", "listener"]
when = "select 1 from tcp_accept where wait_p90_seconds >= 0.1 and ts > $now - interval '10 seconds' and ts <= $now limit 1"
explains = [
  "app.requests_stopped", "client.aborts_499", "proxy.haproxy_queue", "proxy.retry_amplification",
  "proxy.worker_connections", "tcp.close_wait_leak",
]
subject = "{process} on port {server_port}"
summary = "{process} on port {server_port} (netns {netns}) accepts late: {accepted} connections in 10 s waited {wait_ms} ms on average, at most {wait_max_ms} ms; in {slow_seconds} of {seconds} seconds p90 was 100 ms or more"
why = "The kernel completes the handshake; the connection then sits in the accept queue until the process calls accept(). The client sees a slow first response, and the server's log starts counting only after accept(), so the wait is in no log. It is the early warning before the queue overflows."
look_at = "`select ts, accepted, wait_p50_seconds, wait_max_seconds, abandoned from tcp_accept where server_port = …` beside accept_queue_length in listener; whether all workers are busy or blocked, and whether the process gets CPU time (cpu_stat, cgroup_stat, pressure)."
silent_when = "Fewer than five measured connections in ten seconds, or only one second with p90 of 100 ms or more (a burst, a reload). Servers that delay accept() on purpose (`accept_mutex_delay`, a queue in front of few workers) fire too: the threshold is an opinion. Without `ebpf.enabled` there are no rows."
fix = "Make {process} call accept() sooner: more workers or threads, no blocking work in the accepting thread, more CPU. A longer backlog does not help: it only makes the wait longer. Check: wait_p90_seconds in tcp_accept falls below 0.1."
source = "kernel net/ipv4/inet_connection_sock.c, inet_csk_accept; accept(2)"
---*/
with waits as (
  select host, netns, server_port,
    sum(accepted) as accepted, sum(measured) as measured,
    sum(wait_sum_seconds) / greatest(sum(measured), 1) as wait_seconds,
    max(wait_max_seconds) as wait_max_seconds,
    count(distinct ts) filter (where wait_p90_seconds >= 0.1) as slow_seconds,
    count(distinct ts) as seconds
  from tcp_accept
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_port
),
owners as (
  select host, netns, server_port, max(process_name) as process_name, max(process_id) as process_id,
    coalesce(max(tier), 'app') as tier
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_port
)
select w.host, w.netns, w.server_port, coalesce(o.tier, 'app') as tier,
  coalesce(o.process_name, 'an unknown process') as process, o.process_id,
  w.accepted, w.slow_seconds, w.seconds,
  cast(round(w.wait_seconds * 1000) as bigint) as wait_ms,
  cast(round(w.wait_max_seconds * 1000) as bigint) as wait_max_ms
from waits w
left join owners o on o.host = w.host and o.netns = w.netns and o.server_port = w.server_port
where w.measured >= 5 and w.slow_seconds >= 2
