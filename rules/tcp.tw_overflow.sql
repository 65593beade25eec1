/*---
id = "tcp.tw_overflow"
title = "TIME_WAIT limit reached"
tier = "kernel"
class = "note"
for = "0s"
every = "2s"
clear = "2m"
key = ["netns"]
needs = ["tcp_stat", "sock_stat", "sysctl"]
when = "select 1 from tcp_stat where counter = 'TCPTimeWaitOverflow' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "TIME_WAIT limit in netns {netns}"
summary = "{skipped} connections closed without TIME_WAIT in the last minute (netns {netns}): {time_wait} sockets in TIME_WAIT, net.ipv4.tcp_max_tw_buckets = {limit_text}"
why = "TIME_WAIT keeps late packets of an old connection out of a new one with the same addresses and ports. Above the limit the kernel drops that protection silently: recent kernels log nothing, only this counter shows it."
look_at = "sock_stat.tcp_time_wait over the day, and which hop closes that many connections: ActiveOpens and PassiveOpens in tcp_stat against requests per second."
silent_when = "TCPTimeWaitOverflow did not rise within a minute. Many sockets in TIME_WAIT below the limit are fine (see tcp.time_wait_many for when they matter)."
fix = "{place}net.ipv4.tcp_max_tw_buckets = {wanted}, then `sysctl -w net.ipv4.tcp_max_tw_buckets={wanted}`; a socket in TIME_WAIT costs about 0.25 KiB, so this is {cost_mebibytes:.0} MiB when all are used. Better: keep connections open between the tiers, so that fewer are closed. Check: TCPTimeWaitOverflow no longer rises. Never lower the limit to have fewer sockets in TIME_WAIT: it only removes the protection."
source = "fault lab F05 (236 of 300 skipped, no line in dmesg); kernel net/ipv4/inet_timewait_sock.c; field notes A (350,000 sockets = 87 MB)"
[chart]
title = "Sockets in TIME_WAIT"
unit = ""
sql = """
select ts, tcp_time_wait as time_wait from sock_stat
where host = {host} and netns = {netns} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with skipped as (
  select host, netns, sum(increase) as skipped
  from tcp_stat
  where counter = 'TCPTimeWaitOverflow' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
waiting as (
  select host, netns, max(tcp_time_wait) as time_wait
  from sock_stat
  where ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
setting as (
  select host, netns, try_cast(value as bigint) as bucket_limit, set_in,
    row_number() over (partition by host, netns order by ts desc) as place
  from sysctl
  where name = 'net.ipv4.tcp_max_tw_buckets' and ts > $now - interval '2 hours' and ts <= $now
),
joined as (
  select k.host, k.netns, k.skipped, w.time_wait, s.bucket_limit, s.set_in,
    greatest(4 * coalesce(s.bucket_limit, w.time_wait, 65536), 262144) as wanted
  from skipped k
  left join waiting w on w.host = k.host and w.netns = k.netns
  left join setting s on s.host = k.host and s.netns = k.netns and s.place = 1
)
select host, netns, skipped, time_wait, bucket_limit, wanted, wanted * 0.25 / 1024 as cost_mebibytes,
  coalesce(cast(bucket_limit as varchar), 'unknown') as limit_text,
  case when set_in is not null then concat(set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from joined
