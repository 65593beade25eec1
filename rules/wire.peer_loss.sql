/*---
id = "wire.peer_loss"
title = "Packet loss towards one peer"
tier = "wire"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["netns", "side", "upstream"]
needs = ["tcp_path"]
when = "select 1 from tcp_path where retransmits >= 5 and ts > $now - interval '36 seconds' and ts <= $now limit 1"
explains = [
  "app.slow", "app.slow_quiet", "client.aborts_499", "mysql.replica_lag", "pg.replica_lag",
  "proxy.bad_gateway", "proxy.upstream_errors", "proxy.upstream_timeout", "wire.loss",
  "app.service_hangs", "proxy.upstream_hangs",
]
subject = "{upstream}"
summary = "{loss_percent:.1} % of the data segments from {host} to {peer_text} are lost: {lost} of {segments} in 30 s on {lossy} of {connections} connections; {others} other peers lose {others_percent:.2} %"
why = "The peer did not acknowledge these segments in time, so they were sent again after 200 ms or more. Other peers of this host are well, so the loss is on the path to this one, at its NIC, or at its provider, not here."
look_at = "`ss -tin dst {address}` on {host}: `retrans:` and `rtt:` of each connection. From the other end as well: loss in one direction only points at a queue or a limit in that direction."
silent_when = "Fewer than 10 lost of 200 data segments in 30 s, or the share is below 2 % (an upstream) or 5 % (a network of clients) in all but one of three intervals of 10 s; a mail from 4 % on towards an upstream, a note otherwise (defaults). Duplicates that the peer reported (DSACK) do not count. Only connections that live for some seconds are measured. If fewer other peers lose below 1 % (of 200 segments) than lose more, the path cannot be told from the host itself: wire.loss reports that."
fix = "{fix_text} Check: retransmits of tcp_path falls."
source = "tcp(7), struct tcp_info: tcpi_total_retrans, tcpi_data_segs_out, tcpi_dsack_dups; RFC 2883"
[text.peer_text]
client = "upstream {upstream}"
server = "the clients of network {address} (port {server_port})"
[text.fix_text]
client = "Find the hop with `mtr -T -P {server_port} {address}` from both ends; check cable, NIC and switch port of that host, and the bandwidth limit of its provider. Take the member out of its pool until then."
server = "If they are one site, office or carrier, report it to their provider with `mtr` output; there is nothing to change on this host. BBR (`net.ipv4.tcp_congestion_control = bbr`) loses less throughput on such paths."
[chart]
title = "Retransmitted data segments"
unit = ""
sql = """
select ts, sum(retransmits) as retransmits, sum(segments) as segments from tcp_path
where host = {host} and netns = {netns} and side = {side} and peer_address = {address} and server_port = {server_port}
  and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with recent as (
  select host, netns, side, server_port, peer_address, connections, lossy_connections, segments,
    greatest(retransmits - coalesce(spurious_retransmits, 0), 0) as lost
  from tcp_path
  where ts > $now - interval '36 seconds' and ts <= $now
),
peers as (
  select host, netns, side, server_port, peer_address, sum(segments) as segments, sum(lost) as lost,
    max(connections) as connections, max(lossy_connections) as lossy,
    count(*) filter (where lost >= 2 and lost >= case when side = 'client' then 0.02 else 0.05 end * segments) as lossy_intervals
  from recent
  group by host, netns, side, server_port, peer_address
),
judged as (
  select *, segments >= 200 and lost >= 10 and lossy_intervals >= 2
      and lost >= case when side = 'client' then 0.02 else 0.05 end * segments
      and (side = 'client' or lossy >= 2) as is_lossy
  from peers
),
hosts as (
  select host, netns, count(*) as peers, count(*) filter (where is_lossy) as lossy_peers,
    count(*) filter (where segments >= 200 and lost < 0.01 * segments) as healthy_peers,
    sum(segments) as segments, sum(lost) as lost
  from judged
  group by host, netns
)
select j.host, j.netns, j.side, case when j.side = 'client' and j.peer_address like '%:%' then concat('[', j.peer_address, ']:', j.server_port)
    when j.side = 'client' then concat(j.peer_address, ':', j.server_port) else j.peer_address end as upstream,
  j.peer_address as address, j.server_port, j.segments, j.lost, j.connections, j.lossy, 100.0 * j.lost / j.segments as loss_percent,
  h.peers - 1 as others, 100.0 * (h.lost - j.lost) / greatest(h.segments - j.segments, 1) as others_percent,
  case when j.side = 'client' then 'client' else 'server' end as peer_text,
  case when j.side = 'client' then 'client' else 'server' end as fix_text,
  case when j.side = 'client' and j.lost >= 0.04 * j.segments then 'mail' else 'note' end as class
from judged j
join hosts h on h.host = j.host and h.netns = j.netns
where j.is_lossy and h.healthy_peers >= h.lossy_peers
