/*---
id = "tcp.rcvbuf_pressure"
title = "Receive buffers full: processes read too slowly"
tier = "app"
class = "note"
for = "0s"
every = "5s"
clear = "60s"
key = ["netns"]
needs = ["tcp_stat"]
when = "select 1 from tcp_stat where counter in ('TCPToZeroWindowAdv', 'TCPRcvQDrop', 'RcvPruned') and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "receivers in netns {netns} of {host}"
summary = "slow readers in netns {netns} of {host}: {zero_windows} zero windows announced in the last minute ({reopened} reopened), {dropped} segments dropped at full receive buffers{stuck_text}; {past_text}"
why = "A connection's receive buffer is full because its process does not read. The kernel announces a zero window; the peer stops sending and probes. To the peer it looks like a slow network, but the network is free: this process is late."
look_at = "Which process: `ss -tnp | awk '$2 > 0'` (Recv-Q that stays above 0). What it waits for: its CPU, a disk it writes to, a lock, another connection. On the peer: `ss -tno` shows timer:(persist)."
silent_when = "Fewer than 60 zero windows within a minute or all in fewer than 15 samples, or less than 5× those of 10 and 60 minutes ago, and no dropped segment in 3 samples. A receiver that reads nothing at all announces it once: it counts if more windows were closed than reopened, the last one 8 s ago, and the peers keep probing (if they are on this host), or if there are three. Receivers that write to disk (backups, uploads) reach a zero window in bursts: this is only a note."
fix = "Make the reader faster: move work out of the reading thread, add workers, or fix what it waits for. Larger buffers (net.ipv4.tcp_rmem, third number) only delay it, unless peers are far away. If the program sets SO_RCVBUF, remove that: it disables the kernel's autotuning. Check: TCPToZeroWindowAdv rises no faster than an hour ago."
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
  case when p.past_zero_windows is null then 'no history to compare with'
       else concat('before: ', p.past_zero_windows, ' a minute') end as past_text,
  case when r.since_seconds >= 8 and r.zero_windows > r.reopened then concat('; ', r.zero_windows - r.reopened, ' never reopened') else '' end as stuck_text,
  r.drop_samples >= 3 or p.past_zero_windows is null or r.zero_windows >= 5 * p.past_zero_windows
    or (r.since_seconds >= 8 and r.zero_windows > r.reopened) as opens
from recent r
left join probes b on b.host = r.host
left join past p on p.host = r.host and p.netns = r.netns
where (r.zero_windows >= 60 and r.samples >= 15) or r.drop_samples >= 3
  or (r.since_seconds >= 8 and (r.zero_windows - r.reopened >= 3 or (r.zero_windows > r.reopened and b.probe_samples >= 2)))
