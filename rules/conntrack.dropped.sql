/*---
id = "conntrack.dropped"
title = "Connection tracking drops packets, table not full"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
clear = "60s"
key = ["netns"]
needs = ["conntrack_stat"]
when = "select 1 from conntrack_stat where drops_increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["dns.resolver_slow", "wire.syn_retries"]
subject = "connection tracking in netns {netns} of {host}"
summary = "conntrack in netns {netns} of {host} dropped {drops} packets in the last minute, {reason}; its table is {full_ratio:%} full"
why = "{why_text}"
look_at = "`conntrack -S`: insert_failed, chaintoolong, drop, invalid per CPU. Which packets: `echo 1 > /proc/sys/net/netfilter/nf_conntrack_log_invalid` for a minute logs those that fit no connection (needs a logger such as nf_log_syslog)."
silent_when = "Fewer than 3 dropped packets in a minute, or all within one sample of 5 s; a table over 80 % full, or evictions (conntrack.full). It is a mail from 60 a minute on (a default). Packets that conntrack only marks as invalid are dropped by the firewall's own rules, if at all: firewall.drops_service."
fix = "{fix_text}"
source = "kernel net/netfilter/nf_conntrack_core.c: nf_ct_resolve_clash, __nf_conntrack_confirm, nf_conntrack_in; kubernetes/kubernetes #56903"
[text.reason]
clash = "{clashes} of them since another packet had just inserted the same connection"
chain = "{chains} of them since their hash chain was too long"
unknown = "for a reason that it does not count"
[text.why_text]
clash = "Two first packets of one connection are handled at the same time, and the slower one finds its entry taken and is dropped. Typical: a resolver sends A and AAAA queries from one UDP socket at once through DNAT (Kubernetes services); the client waits 5 s and asks again. The table's size has nothing to do with it."
chain = "Entries are found by a hash, and the kernel refuses to let one chain grow beyond a limit. Too few buckets for the number of entries, or many connections that share a hash. New connections of that chain time out."
unknown = "The kernel counts in `drop` also packets that contradict the state of their connection and those that a protocol helper refused. The clients concerned send again or time out."
[text.fix_text]
clash = "Avoid the race: `options single-request-reopen` in /etc/resolv.conf (glibc), a local DNS cache per host (NodeLocal DNSCache, unbound, systemd-resolved) that upstreams over TCP, or `notrack` for UDP port 53. Do not raise nf_conntrack_max for it. Check: insert_failures_increase of conntrack_stat stays 0."
chain = "Raise the number of buckets: `sysctl -w net.netfilter.nf_conntrack_buckets=N` (host namespace) with N about the number of entries, permanently `options nf_conntrack hashsize=N` in /etc/modprobe.d/nf_conntrack.conf. Check: chain_too_long_increase of conntrack_stat stays 0."
unknown = "Find the packets first (`look at`). Asymmetric routes, where the host sees one direction only, need `net.netfilter.nf_conntrack_tcp_be_liberal=1` or `notrack`. Do not raise nf_conntrack_max for it: the table has space."
[chart]
title = "Packets dropped by connection tracking"
unit = ""
sql = """
select ts, drops_increase as dropped from conntrack_stat
where host = {host} and netns = {netns} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with counted as (
  select host, netns, sum(drops_increase) as drops, sum(insert_failures_increase) as clashes,
    coalesce(sum(chain_too_long_increase), 0) as chains, count(*) filter (where drops_increase > 0) as samples,
    max(cast(entries as double) / greatest(entries_limit, 1)) as full_ratio, sum(early_drops_increase) as evictions
  from conntrack_stat
  where ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
)
select host, netns, drops, clashes, chains, full_ratio,
  case when drops >= 60 then 'mail' else 'note' end as class,
  case when 2 * chains >= drops then 'chain' when 2 * clashes >= drops then 'clash' else 'unknown' end as reason,
  case when 2 * chains >= drops then 'chain' when 2 * clashes >= drops then 'clash' else 'unknown' end as why_text,
  case when 2 * chains >= drops then 'chain' when 2 * clashes >= drops then 'clash' else 'unknown' end as fix_text
from counted
where drops >= 3 and samples >= 2 and coalesce(evictions, 0) = 0 and coalesce(full_ratio, 0) <= 0.8
