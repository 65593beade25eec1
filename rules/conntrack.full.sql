/*---
id = "conntrack.full"
title = "The connection tracking table is full: packets of new connections are dropped"
tier = "kernel"
class = "page"
for = "0s"
every = "5s"
clear = "30s"
key = []
needs = ["kmsg", "sysctl"]
when = "select 1 from kmsg where kind = 'conntrack_full' and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "connection tracking of {host}"
summary = "the connection tracking table of {host} is full (net.netfilter.nf_conntrack_max = {limit_text}): the kernel said so {messages} times in the last minute, and drops packets"
why = "The firewall or NAT remembers every connection, and there is no place left, so the first packet of each new connection is dropped. Visitors see timeouts and no process logs anything; connections that exist go on as if nothing were wrong."
look_at = "`conntrack -S` (drop, early_drop, insert_failed), `conntrack -L | awk '{print $4}' | sort | uniq -c` for states. Many in TIME_WAIT or SYN_SENT: a flood, or connections that are not reused. The kernel limits its own message, so its number says nothing about how many packets were lost."
silent_when = "The kernel did not print `nf_conntrack: table full, dropping packet` within a minute. How full the table is before that is not measured yet; hosts whose kernel log cannot be read stay silent."
fix = "At once: `sysctl -w net.netfilter.nf_conntrack_max={wanted}`; to stay: {place}net.netfilter.nf_conntrack_max = {wanted}, and `options nf_conntrack hashsize={buckets}` in /etc/modprobe.d/nf_conntrack.conf (about 320 B an entry: {cost_mebibytes:.0} MiB when full). Better, do not track what needs no tracking: `nft add rule inet raw prerouting tcp dport {80, 443} notrack` and the same for the way out. Check: the message does not come again and new connections are taken. Do not unload the module on a host with NAT: that cuts every connection."
source = "fault lab F06 (70 to 214 timeouts); kernel net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc; Documentation/networking/nf_conntrack-sysctl.rst"
---*/
with told as (
  select host, count(*) as messages, max(body) as body
  from kmsg
  where kind = 'conntrack_full' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
setting as (
  select host, try_cast(value as bigint) as entry_limit, set_in,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.netfilter.nf_conntrack_max' and ts > $now - interval '2 hours' and ts <= $now
),
joined as (
  select t.host, t.messages, t.body, s.entry_limit, s.set_in, greatest(4 * coalesce(s.entry_limit, 65536), 262144) as wanted
  from told t left join setting s on s.host = t.host and s.place = 1
)
select host, messages, body, entry_limit, wanted, wanted / 4 as buckets, wanted * 320.0 / 1048576 as cost_mebibytes,
  coalesce(cast(entry_limit as varchar), 'unknown') as limit_text,
  case when set_in is not null then concat(set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from joined
