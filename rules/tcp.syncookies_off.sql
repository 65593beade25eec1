/*---
id = "tcp.syncookies_off"
title = "SYNs dropped: SYN cookies are off"
tier = "kernel"
class = "page"
for = "4s"
every = "5s"
clear = "30s"
key = ["netns"]
needs = ["tcp_stat", "sysctl"]
when = "select 1 from tcp_stat where counter = 'TCPReqQFullDrop' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped"]
subject = "SYN cookies in netns {netns}"
summary = "{dropped} SYNs dropped in the last minute (netns {netns}): SYN queue full and net.ipv4.tcp_syncookies = 0 (set in {where_set})"
why = "With cookies the kernel answers a SYN that finds the queue full, without keeping state; without them it drops the SYN. Under a flood, or a burst of legitimate clients on a small backlog, no client gets in: 0 of 20 in the fault lab, 20 of 20 with cookies."
look_at = "tcp_stat: TCPReqQFullDrop against PassiveOpens. Is it a flood (tcp.syn_flood) or a small backlog (accept_queue_length near accept_queue_limit)?"
silent_when = "TCPReqQFullDrop does not rise (in 2 samples, or by 20, within a minute), or cookies are on: then the kernel counts TCPReqQFullDoCookies instead. Cookies off without drops are a note of tcp.sysctl_harmful."
fix = "{place}net.ipv4.tcp_syncookies = 1, then `sysctl -w net.ipv4.tcp_syncookies=1`; it takes effect at once, without a restart. It is safe: cookies are sent only while a SYN queue is full. Check: TCPReqQFullDrop no longer rises, TCPReqQFullDoCookies does. Do not use 2, a value for tests."
source = "fault lab F02 (1451 dropped, 0 of 20 good clients in); kernel net/ipv4/tcp_input.c, tcp_syn_flood_action"
[chart]
title = "SYNs dropped at a full SYN queue"
unit = ""
sql = """
select ts, increase as dropped from tcp_stat
where counter = 'TCPReqQFullDrop' and host = {host} and netns = {netns} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with drops as (
  select host, netns, sum(increase) as dropped, count(*) as samples
  from tcp_stat
  where counter = 'TCPReqQFullDrop' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
setting as (
  select host, netns, value, set_in, row_number() over (partition by host, netns order by ts desc) as place
  from sysctl
  where name = 'net.ipv4.tcp_syncookies' and ts > $now - interval '2 hours' and ts <= $now
)
select d.host, d.netns, d.dropped, d.samples,
  coalesce(s.set_in, 'an unknown file') as where_set,
  case when s.set_in is not null then concat(s.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from drops d
join setting s on s.host = d.host and s.netns = d.netns and s.place = 1 and s.value = '0'
where d.samples >= 2 or d.dropped >= 20
