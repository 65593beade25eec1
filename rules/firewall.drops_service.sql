/*---
id = "firewall.drops_service"
title = "Host firewall drops traffic of a service in use"
tier = "kernel"
class = "page"
for = "0s"
every = "5s"
clear = "30s"
key = ["netns", "family", "table_name", "chain", "rule_handle"]
needs = ["firewall_rule", "log", "listener", "request", "tcp_stat", "host_info"]
when = "select 1 from firewall_rule where packets_increase >= 1 and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.down", "app.errors_quiet", "app.requests_stopped", "app.service_rejects",
  "app.service_unreachable", "app.throughput_drop", "db.not_answering", "lb.too_few_healthy",
  "mysql.replica_broken", "pg.replica_lag", "proxy.bad_gateway", "proxy.masked_errors",
  "proxy.retry_amplification", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "wire.connect_unanswered", "wire.host_unreachable",
  "wire.mtu_blackhole", "wire.syn_blackhole", "wire.syn_retries", "app.service_hangs",
  "proxy.upstream_hangs",
]
subject = "{rule_text} in chain {chain} of {host}"
summary = "firewall rule `{rule_text}` ({family} {table_name} {chain}, netns {netns}) {verdict}s {packets} packets in 30 s on {host}: {effect_text}"
why = "The kernel discards these packets before any program sees them, so no log of the service has a line. `drop` lets the other side wait and send again (1, 1, 1, 1, 2, 4 … s); `reject` answers at once with an error. A rule that was added or moved, a reloaded rule set, or a policy of `drop` without a rule for this port does that."
look_at = "`nft -a list chain {family} {table_name} {chain}` (`iptables -nvL {chain}` for rules of iptables): the rule with handle {rule_handle}, and what was changed last: `journalctl -u nftables -u firewalld -u ufw -u docker --since -1h`, the configuration management's last run. Conditions that weir does not read: {conditions}."
silent_when = "The counter of the rule moved by fewer than 3 packets in 30 s; no visitor or upstream is seen to fail because of it. Scanners hit dropping rules all day: a drop counts only if a proxy's log has failed connections to exactly that address and port, or a listening port of a proxy is dropped while its requests fell to less than a fifth of the five minutes before. An outgoing drop with SYN retransmissions alone may be intended egress filtering and is a note. An incoming drop of everything that no other rule accepted cannot be attributed to anybody. Rules without a `counter`, and iptables-legacy, are not seen."
fix = "Accept the packets in front of this rule, such as `nft insert rule {family} {table_name} {chain} {accept_text} accept` (ufw: `ufw allow`, firewalld: `firewall-cmd --add-port`), then make it permanent where the rule set is kept, or revert the change that added rule {rule_handle}. Check: its counter stops and the failures end. Do not flush the rule set: a policy of `drop` then closes the host, and NAT of containers is lost."
source = "kernel net/netfilter/nf_tables_api.c, nft_counter.c; nft(8)"
[text.effect_text]
upstream = "{failures} connections to {upstream} failed in the proxy's log of {observer}"
requests = "requests of the proxy behind it fell from {past_rate:.1}/s to {rate:.1}/s"
retries = "{syn_retries} SYNs were retransmitted meanwhile"
[chart]
title = "Packets that the rule dropped"
unit = ""
sql = """
select ts, packets_increase as packets from firewall_rule
where host = {host} and netns = {netns} and chain = {chain} and rule_handle = {rule_handle}
  and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with dropped as (
  select host, netns, family, table_name, chain, rule_handle, max(verdict) as verdict, max(protocol) as protocol,
    max(source_address) as source_address, max(source_port) as source_port, max(destination_address) as destination_address,
    max(destination_port) as destination_port, max(other_conditions) as other_conditions, max(hook) as hook,
    sum(packets_increase) as packets
  from firewall_rule
  where ts > $now - interval '30 seconds' and ts <= $now and packets_increase > 0
  group by host, netns, family, table_name, chain, rule_handle
  having sum(packets_increase) >= 3
),
lines as (
  select host, regexp_match(attrs['upstream'], '://\[?([0-9a-fA-F.:]+?)\]?:([0-9]+)(/|$)') as ends,
    case when message_template like '%(113: %' or message_template like '%(111: %' then 1 else 0 end as is_rejected
  from log
  where ts > $now - interval '30 seconds' and ts <= $now and program = 'nginx'
    and (message_template like '%while connecting to upstream' or message_template like 'upstream timed out%')
),
failing as (
  select host, ends[1] as address, cast(ends[2] as bigint) as port, count(*) as failures, sum(is_rejected) as rejections
  from lines where ends is not null
  group by 1, 2, 3
),
homes as (
  select host, last_value(addresses order by ts) as addresses
  from host_info
  where ts > $now - interval '2 hours' and ts <= $now
  group by host
),
reached as (
  select f.host as observer, f.host, f.address, f.port, f.failures, f.rejections from failing f
  union all
  select f.host as observer, h.host, f.address, f.port, f.failures, f.rejections
  from failing f join homes h on h.host <> f.host and strpos(concat(' ', h.addresses, ' '), concat(' ', f.address, ' ')) > 0
),
matched as (
  select d.host, d.netns, d.family, d.table_name, d.chain, d.rule_handle, sum(r.failures) as failures,
    max(concat(r.address, ':', r.port)) as upstream, max(r.observer) as observer
  from dropped d
  join reached r on r.host = d.host and (
    d.destination_port = r.port and coalesce(d.destination_address, r.address) in (r.address)
    or d.destination_port = r.port and d.destination_address like '%/%'
    or d.source_port = r.port and (coalesce(d.source_address, r.address) = r.address or d.source_address like '%/%')
    or d.destination_port is null and d.destination_address = r.address
    or d.source_port is null and d.source_address = r.address
    -- Without an address and port: what is sent from here, or a reject at the upstream's host that the proxy sees.
    or coalesce(d.destination_port, d.source_port) is null and coalesce(d.destination_address, d.source_address) is null
      and d.other_conditions is null
      and (d.hook = 'output' or d.verdict = 'reject' and d.hook = 'input' and r.observer <> d.host and 2 * r.rejections >= r.failures
        and d.packets >= r.rejections))
  group by d.host, d.netns, d.family, d.table_name, d.chain, d.rule_handle
),
fronts as (
  select distinct host, netns, server_port
  from listener
  where tier in ('proxy', 'edge') and ts > $now - interval '10 seconds' and ts <= $now
),
requests as (
  select host, count(*) filter (where ts > $now - interval '20 seconds') / 20.0 as rate,
    count(*) filter (where ts <= $now - interval '20 seconds') / 300.0 as past_rate
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '320 seconds' and ts <= $now
  group by host
),
retried as (
  select host, netns, sum(increase) as syn_retries
  from tcp_stat
  where counter = 'TCPSynRetrans' and ts > $now - interval '30 seconds' and ts <= $now
  group by host, netns
),
judged as (
  select d.*, m.failures, m.upstream, m.observer, q.rate, q.past_rate, r.syn_retries,
    f.host is not null and q.past_rate >= 0.5 and q.rate < 0.2 * q.past_rate as is_shut
  from dropped d
  left join matched m on m.host = d.host and m.netns = d.netns and m.family = d.family and m.table_name = d.table_name
    and m.chain = d.chain and m.rule_handle = d.rule_handle
  left join fronts f on f.host = d.host and f.netns = d.netns and f.server_port = d.destination_port
  left join requests q on q.host = d.host
  left join retried r on r.host = d.host and r.netns = d.netns
)
select host, netns, family, table_name, chain, rule_handle, verdict, packets, failures, upstream, observer, rate, past_rate, syn_retries, hook,
  coalesce(other_conditions, 'none') as conditions,
  concat_ws(' ', case when rule_handle = 0 then 'policy' end, protocol,
    case when source_address is not null then concat('saddr ', source_address) end,
    case when source_port is not null then concat('sport ', source_port) end,
    case when destination_address is not null then concat('daddr ', destination_address) end,
    case when destination_port is not null then concat('dport ', destination_port) end, verdict) as rule_text,
  case when source_port is not null then concat(coalesce(protocol, 'tcp'), ' sport ', source_port)
    when destination_port is not null then concat(coalesce(protocol, 'tcp'), ' dport ', destination_port)
    when upstream is not null then concat('tcp dport ', regexp_match(upstream, ':([0-9]+)$')[1]) else 'CONDITION' end as accept_text,
  case when failures > 0 then 'upstream' when is_shut then 'requests' else 'retries' end as effect_text,
  case when failures > 0 or is_shut then 'page' else 'note' end as class
from judged
where failures > 0 or is_shut or (hook = 'output' and syn_retries >= 3)
