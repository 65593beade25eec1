/*---
id = "conntrack.full"
title = "Connection-tracking table full: packets dropped"
tier = "kernel"
class = "page"
for = "0s"
every = "2s"
clear = "30s"
key = []
needs = ["kmsg", "sysctl", "conntrack_stat"]
when = """
select 1 from kmsg where kind = 'conntrack_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now
union all
select 1 from conntrack_stat where (drops_increase > 0 or early_drops_increase > 0 or entries > 0.8 * entries_limit)
  and ts > $now - interval '60 seconds' and ts <= $now
limit 1"""
explains = [
  "app.requests_stopped", "app.throughput_drop", "proxy.bad_gateway", "proxy.upstream_errors",
  "proxy.upstream_timeout", "wire.loss", "wire.mtu_blackhole", "wire.path_loss",
  "wire.syn_blackhole", "wire.connect_unanswered", "wire.syn_retries", "proxy.upstream_hangs",
]
subject = "connection tracking of {host}"
summary = "the conntrack table of {host} {state_text} (net.netfilter.nf_conntrack_max = {limit_text}){told_text}"
why = "The firewall or NAT tracks every connection. When the table is full, the first packet of each new connection is dropped: clients see timeouts and no process logs anything, while existing connections keep working."
look_at = "`conntrack -S` (drop, early_drop, insert_failed), `conntrack -L | awk '{print $4}' | sort | uniq -c` for states. Many in TIME_WAIT or SYN_SENT: a flood, or connections without reuse. The kernel rate-limits its message, so count drops_total of conntrack_stat instead, while `entries` is near its limit."
silent_when = "The table is at most 80 % full (mail; a default), the kernel counted no dropped packet and no connection evicted for lack of space, and did not log `nf_conntrack: table full, dropping packet` within a minute. Dropped packets count only while the table is over 80 % full: the kernel's counter also has packets that raced for one entry or did not fit their connection (conntrack.dropped). Only namespaces with a listening socket count. It is a page when packets are dropped."
fix = "Now: `sysctl -w net.netfilter.nf_conntrack_max={wanted}`; permanently: {place}net.netfilter.nf_conntrack_max = {wanted}, and `options nf_conntrack hashsize={buckets}` in /etc/modprobe.d/nf_conntrack.conf (about 320 B an entry: {cost_mebibytes:.0} MiB when full). Better, do not track what needs no tracking: `nft add rule inet raw prerouting tcp dport {80, 443} notrack` and the same for the output direction. Check: the message does not come back and new connections are accepted. Do not unload the module on a host with NAT: that cuts every connection."
source = "fault lab F06 (70 to 214 timeouts); kernel net/netfilter/nf_conntrack_core.c, __nf_conntrack_alloc; Documentation/networking/nf_conntrack-sysctl.rst"
---*/
with told as (
  select host, count(*) as messages, max(body) as body
  from kmsg
  where kind = 'conntrack_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
tables as (
  select host, max(entries) as entries, max(entries_limit) as entries_limit,
    max(cast(entries as double) / greatest(entries_limit, 1)) as full_ratio,
    sum(coalesce(drops_increase, 0) + coalesce(early_drops_increase, 0)) as lost
  from conntrack_stat
  where ts > $now - interval '60 seconds' and ts <= $now
  group by host
  -- Evictions happen at a full table only; drops have other reasons as well (conntrack.dropped).
  having sum(early_drops_increase) > 0 or max(cast(entries as double) / greatest(entries_limit, 1)) > 0.8
),
setting as (
  select host, try_cast(value as bigint) as entry_limit, set_in,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.netfilter.nf_conntrack_max' and ts > $now - interval '2 hours' and ts <= $now
),
hosts as (
  select coalesce(t.host, c.host) as host, coalesce(t.messages, 0) as messages, t.body, c.entries, c.entries_limit, c.full_ratio,
    coalesce(c.lost, 0) as lost
  from told t full join tables c on c.host = t.host
),
joined as (
  select h.*, coalesce(s.entry_limit, h.entries_limit) as entry_limit, s.set_in,
    greatest(4 * coalesce(s.entry_limit, h.entries_limit, 65536), 262144) as wanted,
    h.messages > 0 or h.lost > 0 as is_lossy
  from hosts h left join setting s on s.host = h.host and s.place = 1
)
select host, messages, body, entries, full_ratio, lost, entry_limit, wanted, wanted / 4 as buckets, wanted * 320.0 / 1048576 as cost_mebibytes,
  case when is_lossy then 'page' else 'mail' end as class,
  coalesce(cast(entry_limit as varchar), 'unknown') as limit_text,
  case when is_lossy then 'is full' else concat('is ', cast(round(full_ratio * 100) as bigint), ' % full') end as state_text,
  concat(
    case when lost > 0 then concat(': ', lost, ' packets or connections dropped in the last minute') else '' end,
    case when messages > 0 then concat(': the kernel logged drops ', messages, ' times in the last minute') else '' end
  ) as told_text,
  case when set_in is not null then concat(set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from joined
