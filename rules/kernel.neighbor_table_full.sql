/*---
id = "kernel.neighbor_table_full"
title = "Kernel's table of neighbours or routes full"
tier = "kernel"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = []
needs = ["kmsg"]
when = "select 1 from kmsg where kind = 'neighbor_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = [
  "app.requests_stopped", "app.service_unreachable", "dns.resolver_slow", "proxy.bad_gateway",
  "proxy.no_live_upstreams", "proxy.upstream_errors", "proxy.upstream_timeout", "wire.loss",
  "wire.path_loss", "wire.syn_blackhole", "wire.connect_unanswered", "wire.syn_retries",
  "proxy.upstream_hangs",
]
subject = "{tables} of {host}"
summary = "{host} cannot reach new addresses on its local networks: the kernel's table ({tables}) is full ({messages} messages in the last minute)"
why = "For each address on a directly attached network the kernel keeps an entry. When the table is at its limit, packets to addresses without an entry are discarded: some peers answer and others time out, and which ones changes by the second."
look_at = "`ip neigh show nud all | wc -l` (IPv4: `ip -4`) against `sysctl net.ipv4.neigh.default.gc_thresh3`. Thousands of entries: a large flat network (hosts with many containers, a /16 being scanned). Few entries: one namespace holds them (`ip -all netns exec ip neigh`), since all namespaces share the limit."
silent_when = "The kernel logged no `neighbor table overflow`, `Route cache is full` or `dst cache overflow` within a minute and since weir started. It limits how often it logs them."
fix = "Raise the limits, permanently in /etc/sysctl.d/90-weir.conf: net.ipv4.neigh.default.gc_thresh1 = 4096, gc_thresh2 = 8192, gc_thresh3 = 16384, and the same for net.ipv6.neigh.default (IPv6 routes: net.ipv6.route.max_size = 65536), then `sysctl --system`. An entry costs less than 1 KiB. Check: the message does not come back and `ip neigh` stays below half of gc_thresh3. `ip neigh flush all` helps for seconds only."
source = "kernel net/core/neighbour.c, neigh_alloc; net/ipv6/route.c; Documentation/networking/ip-sysctl.rst, gc_thresh3; router7#31, lede#6427"
---*/
select host, count(*) as messages, string_agg(distinct coalesce(subject, 'neighbours'), ', ') as tables
from kmsg
where kind = 'neighbor_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now
group by host
