/*---
id = "log.udp_rcvbuf"
title = "UDP receive buffer full: datagrams lost"
tier = "log"
class = "mail"
for = "0s"
every = "2s"
clear = "60s"
key = ["netns"]
needs = ["tcp_stat", "sysctl"]
when = "select 1 from tcp_stat where counter = 'RcvbufErrors' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "UDP receivers in netns {netns}"
summary = "{lost} of {arrived} datagrams were lost in the last minute (netns {netns}): receive buffer full, net.core.rmem_max = {limit_text}"
why = "They reached the socket, but its process had not read the earlier ones. With syslog over UDP these are log lines, and the loss is silent: the sender counts all of them as sent."
look_at = "Which socket: `ss -uanm` (Recv-Q near rb; d is the number dropped) or the last column of /proc/net/udp. Its process: one thread that also parses or writes to a slow disk? A burst at a fixed minute (cron) or all the time?"
silent_when = "Fewer than 10 in a minute, fewer than one in a thousand, or all in one sample: a single burst is no condition. The counters do not show which process it is."
fix = "{place}net.core.rmem_max = 26214400, and let the reader request it (rsyslog imudp `rcvbufSize=\"16m\"` and more `threads`, syslog-ng `so-rcvbuf(16777216)`, others SO_RCVBUF), then restart it. For logs better: TCP or RELP, where a slow reader slows the sender instead of losing lines. Check: RcvbufErrors stops rising under the same load."
source = "fault lab F30 (2459 of 3000 lost, the sender counted all 3000 as sent); udp(7); kernel net/ipv4/udp.c, __udp_enqueue_schedule_skb"
[chart]
title = "Datagrams lost to a full receive buffer"
unit = ""
sql = """
select ts, increase as lost from tcp_stat
where protocol = 'Udp' and counter = 'RcvbufErrors' and host = {host} and netns = {netns}
  and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with counted as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'RcvbufErrors'), 0) as lost,
    coalesce(sum(increase) filter (where counter = 'InDatagrams'), 0) as delivered,
    count(*) filter (where counter = 'RcvbufErrors' and increase > 0) as samples
  from tcp_stat
  where protocol in ('Udp', 'Udp6') and counter in ('RcvbufErrors', 'InDatagrams')
    and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
setting as (
  select host, netns, value, set_in, row_number() over (partition by host, netns order by ts desc) as place
  from sysctl
  where name = 'net.core.rmem_max' and ts > $now - interval '2 hours' and ts <= $now
)
select c.host, c.netns, c.lost, c.lost + c.delivered as arrived, c.samples,
  coalesce(s.value, 'unknown') as limit_text,
  case when s.set_in is not null then concat(s.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from counted c
left join setting s on s.host = c.host and s.netns = c.netns and s.place = 1
where c.lost >= 10 and c.samples >= 2 and c.lost > 0.001 * (c.lost + c.delivered)
