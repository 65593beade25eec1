/*---
id = "tcp.rcvbuf_pressure"
title = "Processes read too slowly: full receive buffers stop or lose what peers send"
tier = "app"
class = "note"
for = "0s"
every = "5s"
clear = "60s"
key = ["netns"]
explained_by = ["tcp.mem_pressure"]
needs = ["tcp_stat"]
when = "select 1 from tcp_stat where counter in ('TCPToZeroWindowAdv', 'TCPRcvQDrop', 'RcvPruned') and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "receivers in netns {netns} of {host}"
summary = "processes in netns {netns} of {host} read too slowly: in the last minute peers were told {zero_windows} times to stop sending (told to go on {reopened} times), and {dropped} segments were thrown away at full buffers{stuck_text}; {past_text}"
why = "The receive buffer of a connection is full because its process does not read. The kernel tells the peer that the window is zero; the peer waits and asks again. On the peer it looks like a slow network, but the network has room: this process is late."
look_at = "Which process: `ss -tnp | awk '$2 > 0'` (Recv-Q that stays above 0). What it waits for: its processor, a disk that it writes to, a lock, another connection. On the peer: `ss -tno` shows timer:(persist)."
silent_when = "Fewer than 60 zero windows within a minute or all in fewer than 15 samples, or less than 5 times those of 10 and 60 minutes ago, and no segment was thrown away at 3 samples. A receiver that reads nothing at all stops its peer once: it counts when more peers were stopped than told to go on, the last of them 8 s ago, and the peers ask again and again (where they are on this host), or there are three. Receivers that write to disk (backups, uploads) reach a zero window in bursts: this is only a note."
fix = "Make the reader faster: take work out of the thread that reads, more workers, or mend what it waits for. Larger buffers (net.ipv4.tcp_rmem, third number) only delay it, unless peers are far away. If the program sets SO_RCVBUF itself, let it not: that turns the kernel's own growth off. Check: TCPToZeroWindowAdv rises no faster than an hour ago."
source = "fault lab F39 (the sender was limited by the receive window 97.8 % of the time); kernel Documentation/networking/snmp_counter.rst, TCPToZeroWindowAdv"
[chart]
title = "Zero windows announced"
unit = ""
sql = """
select ts, increase as zero_windows from tcp_stat
where counter = 'TCPToZeroWindowAdv' and host = {host} and netns = {netns} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with recent as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'TCPToZeroWindowAdv'), 0) as zero_windows,
    count(*) filter (where counter = 'TCPToZeroWindowAdv' and increase > 0) as samples,
    coalesce(sum(increase) filter (where counter = 'TCPFromZeroWindowAdv'), 0) as reopened,
    coalesce(sum(increase) filter (where counter in ('TCPRcvQDrop', 'RcvPruned')), 0) as dropped,
    count(*) filter (where counter in ('TCPRcvQDrop', 'RcvPruned') and increase > 0) as drop_samples,
    date_part('epoch', $now) - date_part('epoch', max(ts) filter (where counter = 'TCPToZeroWindowAdv' and increase > 0)) as since_seconds
  from tcp_stat
  where counter in ('TCPToZeroWindowAdv', 'TCPFromZeroWindowAdv', 'TCPRcvQDrop', 'RcvPruned')
    and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
probes as (
  select host, count(*) as probe_samples
  from tcp_stat
  where counter = 'TCPWinProbe' and increase > 0 and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
past_rows as (
  select 1 as slice, host, netns, increase from tcp_stat
  where counter = 'TCPToZeroWindowAdv' and ts > $now - interval '660 seconds' and ts <= $now - interval '600 seconds'
  union all
  select 2 as slice, host, netns, increase from tcp_stat
  where counter = 'TCPToZeroWindowAdv' and ts > $now - interval '3660 seconds' and ts <= $now - interval '3600 seconds'
),
past_slices as (
  select slice, host, netns, coalesce(sum(increase), 0) as zero_windows from past_rows group by slice, host, netns
),
past as (
  select host, netns, max(zero_windows) as past_zero_windows from past_slices group by host, netns
)
select r.host, r.netns, r.zero_windows, r.samples, r.reopened, r.dropped, p.past_zero_windows,
  case when p.past_zero_windows is null then 'there is no past to compare with'
       else concat('before it was ', p.past_zero_windows, ' a minute') end as past_text,
  case when r.since_seconds >= 8 and r.zero_windows > r.reopened then concat('; ', r.zero_windows - r.reopened, ' were never told to go on') else '' end as stuck_text,
  r.drop_samples >= 3 or p.past_zero_windows is null or r.zero_windows >= 5 * p.past_zero_windows
    or (r.since_seconds >= 8 and r.zero_windows > r.reopened) as opens
from recent r
left join probes b on b.host = r.host
left join past p on p.host = r.host and p.netns = r.netns
where (r.zero_windows >= 60 and r.samples >= 15) or r.drop_samples >= 3
  or (r.since_seconds >= 8 and (r.zero_windows - r.reopened >= 3 or (r.zero_windows > r.reopened and b.probe_samples >= 2)))
