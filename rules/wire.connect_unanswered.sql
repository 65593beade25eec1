/*---
id = "wire.connect_unanswered"
title = "Connections of a program get no answer"
tier = "wire"
class = "mail"
for = "0s"
every = "4s"
clear = "20s"
key = ["destination"]
equal = ["service_names"]
prefers = ["firewall.drops_service", "wire.host_unreachable", "conntrack.full", "db.not_answering"]
needs = ["tcp_connect", "tcp_path", "listener", "request"]
when = "select 1 from tcp_connect where unanswered >= 3 and ts > $now - interval '16 seconds' and ts <= $now limit 1"
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.requests_stopped",
  "app.service_unreachable", "app.slow", "app.slow_quiet", "app.slow_requests_logged",
  "app.socket_backlog_full", "app.worker_timeout", "app.workers_die", "app.workers_exhausted",
  "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_slow",
  "proxy.upstream_errors", "proxy.upstream_timeout", "slo.burning", "tcp.accept_queue_high",
  "unix.accept_queue_full", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "{destination} from {host}"
summary = "connections of {who} on {host} to {destination} get no answer: {unanswered} attempts have waited for more than 1 s{silent_text}; not refused, so something drops them{share_text}"
why = "The first packet of each connection, or its reply, is dropped silently: a firewall, a security group, a missing return route, or the host is gone. The program waits for its connect timeout, and a thread or worker with it; without a timeout it waits for two minutes. A service that is merely stopped refuses at once."
look_at = "`ss -tnp state syn-sent dst {address}` on {host} has the attempts and their programs. On the other side: does the SYN arrive (`tcpdump -ni any 'tcp[13] & 2 != 0 and port {port}'`)? If so, the reply is lost (return route, rp_filter, firewall); if not, something between drops it. What changed when this began: firewall rules, security groups, routes."
silent_when = "Fewer than 3 attempts without an answer for 1 s in three samples of 16 s; with open connections there that carry data, fewer than 2 that waited 3 s (a lossy path repeats a SYN now and then). A port whose accept queue is full on a host of the fleet: that is tcp.listen_overflow. weir's own probes, and nginx, whose error log says it (wire.syn_blackhole). A note unless requests of the host fail as well (5 %: mail, 20 %: page) or the program listens on a port itself and 5 attempts wait (mail): crawlers and mail servers meet dead hosts all day."
fix = "Allow the packets: compare the firewall rules on both ends for port {port} (`nft list ruleset`, `iptables -nvL` for a DROP counter that rises, security groups in both directions), and undo the last change; or bring the host back. Meanwhile a connect timeout of 1 to 2 s in the program keeps its workers free. Check: `ss -tn state syn-sent` is empty."
source = "kernel Documentation/networking/ip-sysctl.rst, tcp_syn_retries; sock_diag(7)"
[text.silent_text]
some = ", {silent} of them for more than 3 s"
none = ""
[text.share_text]
known = "; {failed} of {requests} requests failed in 30 s"
unknown = ""
[chart]
title = "Attempts without an answer"
unit = ""
sql = """
select ts, sum(unanswered) as unanswered from tcp_connect
where host = {host} and peer_address = {address} and peer_port = {port} and ts > $now - interval '15 minutes' and ts <= $now group by ts order by ts"""
---*/
with waiting as (
  select host, netns, peer_address, peer_port, count(*) as samples, min(unanswered) as least, max(unanswered) as unanswered,
    max(silent) as silent, count(*) filter (where silent >= 2) as silent_samples, max(process_name) as process_name
  from tcp_connect
  where ts > $now - interval '16 seconds' and ts <= $now and coalesce(process_name, '') not like 'weir%' and coalesce(process_name, '') <> 'nginx'
  group by host, netns, peer_address, peer_port
),
carrying as (
  select distinct host as carrying_host, netns as carrying_netns, peer_address as carrying_address, server_port as carrying_port
  from tcp_path
  where side = 'client' and ts > $now - interval '30 seconds' and ts <= $now
),
full_ports as (
  select distinct server_port as full_port
  from listener
  -- memcached sets its backlog to 0 while all its connections are in use.
  where accept_queue_length >= greatest(accept_queue_limit, 1) and ts > $now - interval '30 seconds' and ts <= $now
),
servers as (
  select distinct host as server_host, process_name as server_name
  from listener
  where process_name is not null and ts > $now - interval '30 seconds' and ts <= $now
),
answers as (
  select host as answers_host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
judged as (
  select w.*, a.requests, a.failed, s.server_name is not null as is_server,
    w.unanswered >= 5 as is_many, coalesce(a.requests >= 10 and a.failed >= 0.05 * a.requests, false) as is_failing,
    coalesce(a.requests >= 10 and a.failed >= 0.2 * a.requests, false) as is_down
  from waiting w
  left join carrying c on c.carrying_host = w.host and c.carrying_netns = w.netns and c.carrying_address = w.peer_address and c.carrying_port = w.peer_port
  left join full_ports f on f.full_port = w.peer_port
  left join servers s on s.server_host = w.host and s.server_name = w.process_name
  left join answers a on a.answers_host = w.host
  where f.full_port is null and w.samples >= 3 and w.unanswered >= 3
    and (w.silent_samples >= 2 or c.carrying_port is null and w.least >= 2)
)
select host, netns, peer_address as address, peer_port as port, unanswered, silent, requests, failed, process_name,
  coalesce(process_name, 'a program') as who,
  case when peer_address like '%:%' then concat('[', peer_address, ']:', peer_port) else concat(peer_address, ':', peer_port) end as destination,
  case peer_port when 6432 then '6432, postgresql' when 6033 then '6033, mysqld' else concat(peer_port, '') end as service_names,
  case when silent > 0 then 'some' else 'none' end as silent_text,
  case when failed > 0 then 'known' else 'unknown' end as share_text,
  case when is_down then 'page' when is_failing or is_server and is_many then 'mail' else 'note' end as class
from judged
