/*---
id = "wire.syn_retries"
title = "SYN retransmissions: connections answered late"
tier = "kernel"
class = "mail"
for = "0s"
every = "2s"
clear = "15s"
key = ["server_port"]
prefers = ["tcp.listen_overflow", "conntrack.full", "wire.syn_blackhole"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where late_syns >= 1 and not is_lossy and ts > $now - interval '20 seconds' and ts <= $now limit 1"
subject = "connections to port {server_port} of {host}"
summary = "{late_syns} of {syns} SYNs to port {server_port} of {host} were retransmitted after 1 s or more without an answer{wait_text}; clients wait, and no log shows it"
why = "A SYN that reaches the host and gets no SYN-ACK was dropped by the host's kernel: its accept queue is full, because the program accepts too slowly or requested a short queue. The client retransmits after 1, 3 and 7 s (Linux since 6.5: 1, 2, 3, 4, 5 s), and the request begins that much later. The access log starts at accept(), so it shows a fast site."
look_at = "`ss -ltn sport = :{server_port}`: Recv-Q equal to Send-Q is a full queue. `nstat -az TcpExtListenOverflows`. If weir samples that host's kernel, tcp.listen_overflow names the process and the limit."
silent_when = "Fewer than 3 such SYNs in 15 s, or less than 1 % of all; SYN-ACKs were sent and retransmitted (then the return path loses them); packets are missing at the tap in that slice (is_lossy). SYNs held on the way arrive together and do not count: only repeats 0.8 s or more after the first do. A firewall on the host that drops SYNs behind the tap looks the same."
fix = "Raise the queue where the program calls listen() (nginx: `listen {server_port} backlog=16384;`) together with net.core.somaxconn, then reload or restart, so that listen() is called again; if the queue is constantly full, the program is stuck or has too few workers: fix that first. Check: no late SYN in wire_slice. Do not set net.ipv4.tcp_abort_on_overflow=1."
source = "fault lab 4_listen_overflow (1,442 late SYNs beside 1,702 ListenDrops); kernel ip-sysctl tcp_syn_linear_timeouts; RFC 6298"
[chart]
title = "SYNs, and late SYNs"
unit = ""
sql = """
select ts, sum(syns) as syns, sum(late_syns) as late from wire_slice
where host = {host} and server_port = {server_port} and ts > $now - interval '10 minutes' and ts <= $now
group by ts order by ts"""
---*/
select host, server_port, sum(syns) as syns, sum(late_syns) as late_syns, sum(synack_retries) as synack_retries,
  max(syn_wait_p95_seconds) as syn_wait_p95, count(*) as slices,
  case when max(syn_wait_p95_seconds) >= 1.0
    then concat(', answered ones waited up to ', cast(round(10.0 * max(syn_wait_p95_seconds)) / 10.0 as varchar), ' s (p95)')
    else '' end as wait_text
from wire_slice
where ts > $now - interval '20 seconds' and ts <= $now and not is_lossy
group by host, server_port
having sum(late_syns) >= 3 and 100 * sum(late_syns) >= sum(syns) and sum(late_syns) > sum(synack_retries)
