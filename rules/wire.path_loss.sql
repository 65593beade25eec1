/*---
id = "wire.path_loss"
title = "Packet loss between clients and this host, or behind it"
tier = "wire"
class = "mail"
for = "3s"
every = "5s"
clear = "60s"
key = ["server_port"]
prefers = ["nic.errors", "nic.ring_drop", "softirq.backlog_drop", "conntrack.full"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where (retransmits > spurious_retransmits or missing > 0) and not is_lossy and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped"]
subject = "port {server_port} of {host}: {where_text}"
summary = "{lost_percent:.2} % packet loss {where_text} on port {server_port} of {host}: {after} behind the host's tap, {before} before it, of {packets} in a minute"
why = "Server segments that were resent, and that the client did not report as duplicates, were lost behind this host. Gaps in the clients' IP IDs are packets lost before it. Each costs its request 200 ms or more. Nothing on this host is slow: the carrier, the link or the balancer between is at fault."
look_at = "One network or all? `select client_address, sum(server_retransmits), sum(client_missing) from tcp_conn where ts > now() - interval '10 minutes' group by 1 order by 2 desc`. Then `mtr -T -P {server_port}` to the worst."
silent_when = "Less than 0.3 % of the packets, fewer than 20, or in fewer than 3 one-second slices in the last minute. Duplicates reported by the receiver (DSACK) are no loss: tail-loss probes on a busy host cause half a percent of them. Slices in which the tap lost packets do not count. IP IDs that do not count up are unusable, so loss before the host may be larger than shown. The rule wire.loss uses the kernel's own counters."
fix = "Lost before the host: send the numbers and a capture of both ends (`weir capture 10s --port {server_port}`) to the carrier or the balancer's owner. Lost behind it: do so for the return path, and check this host's NIC and queue (nic.errors, nic.ring_drop, `tc -s qdisc`). Check: lost_percent falls. Do not lower the kernel's timeouts: that sends more into a saturated link."
source = "fault lab 5_lossy: 663 of 676 dropped packets were found so; RFC 2883; RFC 6864"
[chart]
title = "Packets lost before and behind the host"
unit = ""
sql = """
select ts, sum(missing) as before, sum(retransmits - spurious_retransmits) as behind from wire_slice
where host = {host} and server_port = {server_port} and not is_lossy
  and ts > $now - interval '10 minutes' and ts <= $now group by ts order by ts"""
---*/
with slices as (
  select host, server_port, packets, missing,
    case when retransmits > spurious_retransmits then retransmits - spurious_retransmits else 0 end as lost_after
  from wire_slice
  where ts > $now - interval '60 seconds' and ts <= $now and not is_lossy
),
sums as (
  select host, server_port, sum(packets) as packets, sum(missing) as before, sum(lost_after) as after,
    count(*) filter (where missing + lost_after > 0) as slices
  from slices group by host, server_port
)
select host, server_port, packets, before, after, slices,
  100.0 * (before + after) / packets as lost_percent,
  case when after = 0 then 'before this host'
       when before = 0 then 'behind this host'
       when before > 3 * after then 'mostly before this host'
       when after > 3 * before then 'mostly behind this host'
       else 'before and behind this host' end as where_text
from sums
where before + after >= 20 and 1000 * (before + after) >= 3 * packets and slices >= 3
