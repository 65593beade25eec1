/*---
id = "wire.loss"
title = "Packet loss: TCP retransmissions above normal"
tier = "wire"
class = "mail"
for = "0s"
every = "4s"
clear = "60s"
key = ["netns"]
prefers = ["nic.errors", "nic.ring_drop", "softirq.backlog_drop", "conntrack.full"]
needs = ["tcp_stat", "tcp_path"]
when = "select 1 from tcp_stat where protocol = 'Tcp' and counter = 'RetransSegs' and increase >= 3 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped", "client.aborts_499", "mysql.replica_lag", "pg.replica_lag"]
subject = "packets from netns {netns} of {host}"
summary = "{host} (netns {netns}) retransmitted {loss_percent:.2} % of its TCP segments in the last {span_text}: {retransmitted} of {sent}{peer_text}{past_text}"
why = "The peer did not acknowledge a segment in time, so it was resent after 200 ms or more: single requests are slower by that, or by seconds if it repeats. Something between the hosts drops packets: a bad cable or NIC, a saturated link, a provider's limit."
look_at = "To which peers: `ss -tin 'dst NETWORK' | grep retrans` by peer. One peer: its path or NIC. All: this host's NIC (nic.errors, nic.ring_drop), its link, its provider's allowance (`ethtool -S DEVICE | grep exceeded`). TCPLostRetransmit rising as well: heavy loss."
silent_when = "At most the threshold (1 % is a default: `weir thresholds wire.loss` gives the value for this fleet) in one of the three slices of 20 s of the last minute, or fewer than 600 segments in it; within 15 s only 4× the threshold in each of three slices of 5 s counts, with 300 segments and 15 retransmissions. Or less than 5× the median of the host's own slices of the last day (without history: less than 5 %). Retransmitted SYNs (TCPSynRetrans) and duplicates reported by the peer (TCPDSACKRecv) do not count as loss, so a peer with a full accept queue, or a late response, is not mistaken for it. If tcp_path shows that one peer or network of clients has 70 % of the loss and all others lose below 1 %, it is that path, not the host: the finding names it, as a note for clients. Clients on bad radio make some percentage normal for the host."
fix = "Find the hop with `mtr -T -P 443 PEER` from both ends: loss that begins at one hop and continues to the last one is there. On this host: cable, transceiver, `ethtool -G DEVICE rx 4096`. A saturated link: `tc -s qdisc` shows drops, then a larger link or fewer bytes. Between data centres: contact the carrier, with the output from both ends. Check: the share is back to its past value. Do not lower net.ipv4.tcp_retries2 or the RTO: that sends more into a saturated link."
source = "fault lab F07 (0 to 7.84 %, connecting p95 1020 ms); kernel Documentation/networking/snmp_counter.rst; RFC 2883 (DSACK)"
[text.peer_text]
none = ""
client = ", nearly all towards upstream {peer}"
server = ", nearly all towards the clients of network {peer}"
[chart]
title = "Retransmitted segments"
unit = ""
sql = """
select ts, sum(increase) as retransmitted from tcp_stat
where protocol = 'Tcp' and counter = 'RetransSegs' and host = {host} and netns = {netns}
  and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
[threshold]
value = 0.01
unit = "ratio"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '1 minute', ts) as slice, host, netns as subject,
    cast(greatest(sum(case when counter = 'RetransSegs' then increase when counter <> 'OutSegs' then -increase else 0 end), 0) as double)
      / sum(case when counter = 'OutSegs' then increase else 0 end) as value
  from tcp_stat
  where ts >= $from and ts < $to and counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
  group by 1, 2, 3
  having sum(case when counter = 'OutSegs' then increase else 0 end) >= 600
) slices
group by 1, 2, 3"""
---*/
with recent as (
  select host, netns,
    case when ts > $now - interval '20 seconds' then 1 when ts > $now - interval '40 seconds' then 2 else 3 end as slice,
    sum(case when counter = 'OutSegs' then increase else 0 end) as sent,
    sum(case when counter = 'RetransSegs' then increase
             when counter in ('TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv') then -increase else 0 end) as retransmitted
  from tcp_stat
  where counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
    and ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2, 3
),
lossy as (
  select host, netns, sum(sent) as sent, sum(retransmitted) as retransmitted
  from recent
  group by host, netns
  having count(*) = 3 and sum(sent) >= 600
    and min(cast(retransmitted as double) / greatest(sent, 1)) > $threshold
),
newest as (
  select host, netns, cast(floor((date_part('epoch', $now) - date_part('epoch', ts)) / 5) as bigint) as slice,
    sum(case when counter = 'OutSegs' then increase else 0 end) as sent,
    sum(case when counter = 'RetransSegs' then increase
             when counter in ('TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv') then -increase else 0 end) as retransmitted
  from tcp_stat
  where counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
    and ts > $now - interval '15 seconds' and ts <= $now
  group by 1, 2, 3
),
very_lossy as (
  select host, netns, sum(sent) as sent, sum(retransmitted) as retransmitted
  from newest
  where slice < 3
  group by host, netns
  having count(*) = 3 and sum(sent) >= 300 and sum(retransmitted) >= 15
    and min(cast(retransmitted as double) / greatest(sent, 1)) > 4 * $threshold
),
either as (
  select coalesce(l.host, v.host) as host, coalesce(l.netns, v.netns) as netns,
    coalesce(l.sent, v.sent) as sent, coalesce(l.retransmitted, v.retransmitted) as retransmitted,
    case when l.host is null then '15 s' else 'minute' end as span_text
  from lossy l full join very_lossy v on v.host = l.host and v.netns = l.netns
),
past_rows as (
  select 1 as slice, host, netns, counter, increase from tcp_stat
  where counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
    and ts > $now - interval '360 seconds' and ts <= $now - interval '300 seconds'
  union all
  select 2 as slice, host, netns, counter, increase from tcp_stat
  where counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
    and ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes'
  union all
  select 3 as slice, host, netns, counter, increase from tcp_stat
  where counter in ('OutSegs', 'RetransSegs', 'TCPSynRetrans', 'TCPDSACKRecv', 'TCPDSACKOfoRecv')
    and ts > $now - interval '24 hours' and ts <= $now - interval '1439 minutes'
),
past_slices as (
  select slice, host, netns,
    cast(greatest(sum(case when counter = 'RetransSegs' then increase when counter <> 'OutSegs' then -increase else 0 end), 0) as double)
      / sum(case when counter = 'OutSegs' then increase else 0 end) as loss
  from past_rows
  group by slice, host, netns
  having sum(case when counter = 'OutSegs' then increase else 0 end) >= 600
),
past as (
  select host, netns, median(loss) as past_loss from past_slices group by host, netns
),
-- Whose loss it is, as far as connections that stay open show it.
peers as (
  select host, netns, side, peer_address, sum(segments) as segments, sum(greatest(retransmits - coalesce(spurious_retransmits, 0), 0)) as lost
  from tcp_path
  where ts > $now - interval '36 seconds' and ts <= $now
  group by host, netns, side, peer_address
),
shares as (
  select *, sum(segments) over (partition by host, netns) as all_segments, sum(lost) over (partition by host, netns) as all_lost,
    row_number() over (partition by host, netns order by lost desc, peer_address) as place
  from peers
),
single as (
  select host, netns, side, peer_address, all_lost from shares
  where place = 1 and lost >= 10 and lost >= 0.7 * all_lost and all_segments - segments >= 200 and all_lost - lost < 0.01 * (all_segments - segments)
),
joined as (
  select l.host, l.netns, l.sent, l.retransmitted, l.span_text, cast(l.retransmitted as double) / l.sent as loss, p.past_loss
  from either l left join past p on p.host = l.host and p.netns = l.netns
)
select j.host, j.netns, sent, retransmitted, span_text, 100.0 * loss as loss_percent, past_loss, o.peer_address as peer,
  case when o.peer_address is null then 'none' when o.side = 'client' then 'client' else 'server' end as peer_text,
  case when o.side = 'server' then 'note' else 'mail' end as class,
  case when past_loss is null then '; no history to compare with'
       else concat('; own median of the last day: ', cast(round(10000.0 * past_loss) / 100.0 as varchar), ' %') end as past_text,
  case when past_loss is null then loss >= 0.05 else loss >= 5 * past_loss end as opens
from joined j
left join single o on o.host = j.host and o.netns = j.netns and o.all_lost >= 0.25 * j.retransmitted
