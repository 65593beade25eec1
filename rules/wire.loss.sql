/*---
id = "wire.loss"
title = "Packets are lost on the way: much more is sent again than usual"
tier = "wire"
class = "mail"
for = "0s"
every = "4s"
clear = "60s"
key = ["netns"]
explained_by = ["nic.errors", "nic.ring_drop", "softirq.backlog_drop", "conntrack.full", "tcp.listen_overflow", "wire.bandwidth_cap", "wire.cloud_allowance", "wire.mtu_blackhole"]
needs = ["tcp_stat"]
when = "select 1 from tcp_stat where protocol = 'Tcp' and counter = 'RetransSegs' and increase >= 3 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "packets from netns {netns} of {host}"
summary = "{loss_percent:.2} % of the segments that {host} (netns {netns}) sent in the last {span_text} had to be sent again: {retransmitted} of {sent}{past_text}"
why = "The other side did not confirm a segment in time, so it was sent again after 200 ms or more: single requests are slow by that, or by seconds when it happens again. Something between the hosts drops packets: a bad cable or card, a full link, a provider's limit."
look_at = "Towards whom: `ss -tin 'dst NETWORK' | grep retrans` by peer. One peer: its path or card. All: this host's card (nic.errors, nic.ring_drop), its link, its provider's allowance (`ethtool -S DEVICE | grep exceeded`). TCPLostRetransmit rising as well: heavy loss."
silent_when = "At most the threshold (1 % is a default: `weir thresholds wire.loss` says what it should be here) in one of the three slices of 20 s of the last minute, or fewer than 600 segments in it; sooner, in 15 s, only four times the threshold in each of three slices of 5 s counts, with 300 segments and 15 of them sent again. Or less than 5 times the median of the host's own slices of the last day (without a past: less than 5 %). SYNs that are sent again (TCPSynRetrans) and segments that the peer had already (TCPDSACKRecv) are not counted as loss, so a peer whose accept queue is full, or a late answer, does not look like it. Clients with bad radio make a percentage that is normal for the host."
fix = "Find the hop with `mtr -T -P 443 PEER` from both ends: loss that begins at one hop and stays to the last one is there. On this host: cable, transceiver, `ethtool -G DEVICE rx 4096`. A full link: `tc -s qdisc` shows drops, then a larger link or fewer bytes. Between data centres: tell the carrier, with the output from both ends. Check: the share is back at the past one. Do not lower net.ipv4.tcp_retries2 or the RTO for it: that sends more into a full link."
source = "fault lab F07 (0 to 7.84 %, connecting p95 1020 ms); kernel Documentation/networking/snmp_counter.rst; RFC 2883 (DSACK)"
[chart]
title = "Segments sent again"
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
joined as (
  select l.host, l.netns, l.sent, l.retransmitted, l.span_text, cast(l.retransmitted as double) / l.sent as loss, p.past_loss
  from either l left join past p on p.host = l.host and p.netns = l.netns
)
select host, netns, sent, retransmitted, span_text, 100.0 * loss as loss_percent, past_loss,
  case when past_loss is null then '; there is no past to compare with'
       else concat('; its own median of the last day is ', cast(round(10000.0 * past_loss) / 100.0 as varchar), ' %') end as past_text,
  case when past_loss is null then loss >= 0.05 else loss >= 5 * past_loss end as opens
from joined
