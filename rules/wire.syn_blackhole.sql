/*---
id = "wire.syn_blackhole"
title = "Upstream connect timeouts: packets dropped on the path"
tier = "wire"
class = "page"
for = "1s"
every = "5s"
clear = "20s"
key = ["upstream"]
needs = ["log", "tcp_stat", "listener"]
when = "select 1 from log where program = 'nginx' and message_template like 'upstream timed out (%timed out) while connecting to upstream' and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.throughput_drop", "client.aborts_499",
  "lb.too_few_healthy", "lb.uneven", "mysql.replica_broken", "mysql.replica_lag", "pg.replica_lag",
  "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.masked_errors", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "wire.mtu_blackhole", "wire.syn_retries", "slo.burning", "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "connecting from {host} to {upstream} times out: {failures} times in 30 s, {syn_retries} SYNs retransmitted; no reset, no reply, and no known listener on that port drops connections"
why = "The first packet of the connection, or its reply, is dropped silently: a firewall, a security group, a missing return route. The application never sees the connection, so it is not at fault and its log is empty. A stopped application answers with a reset (app.down), a host that is gone causes \"no route to host\" (wire.host_unreachable)."
look_at = "On the upstream's host: does the SYN arrive (`tcpdump -ni any 'tcp[13] & 2 != 0 and port PORT'`)? If so, the reply is lost: return route, rp_filter, its firewall. If not: firewall and security groups between. Connection tracking there: conntrack.full. What changed: firewall rules deployed when this began."
silent_when = "Fewer than 3 timeouts in 30 s, or all within 3 s. A host of the fleet that listens on that port with rising ListenOverflows: then the accept queue drops the handshake (tcp.listen_overflow). nginx must log at level `error` (its default) or more. Retransmitted SYNs alone are no sign: crawlers and mail servers cause them all day."
fix = "Allow the packets: compare the firewall rules on both ends for the port of {upstream} (`nft list ruleset`, `iptables -nvL` for a DROP counter that rises, the provider's security groups in both directions), and undo the last change. Inside the fleet prefer `reject with tcp reset` to `drop`, so that such a fault shows at once. Meanwhile `proxy_connect_timeout 1s;` in nginx keeps clients from waiting 60 s. Check: such lines end, TCPSynRetrans of tcp_stat stops rising."
source = "fault lab F32a; kernel Documentation/networking/snmp_counter.rst, TCPSynRetrans"
[chart]
title = "Retransmitted SYNs"
unit = ""
sql = """
select ts, sum(increase) as syns from tcp_stat
where counter = 'TCPSynRetrans' and host = {host} and ts > $now - interval '15 minutes' and ts <= $now group by ts order by ts"""
---*/
with failed as (
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as upstream, count(*) as failures
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and program = 'nginx' and message_template like 'upstream timed out (%timed out) while connecting to upstream'
  group by 1, 2
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
retried as (
  select host, sum(increase) as syn_retries
  from tcp_stat
  where counter = 'TCPSynRetrans' and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
overflowing as (
  select host, netns
  from tcp_stat
  where counter = 'ListenOverflows' and increase > 0 and ts > $now - interval '30 seconds' and ts <= $now
  group by host, netns
),
full_ports as (
  select distinct cast(l.server_port as varchar) as port
  from listener l
  join overflowing o on o.host = l.host and o.netns = l.netns
  where l.ts > $now - interval '10 seconds' and l.ts <= $now
)
select f.host, f.upstream, f.failures, coalesce(r.syn_retries, 0) as syn_retries
from failed f
left join retried r on r.host = f.host
left join full_ports p on p.port = coalesce(regexp_match(f.upstream, ':([0-9]+)$')[1], '80')
where f.upstream is not null and p.port is null
