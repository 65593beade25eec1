/*---
id = "tune.conntrack_max"
title = "Connection-tracking table nearly full"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["conntrack_stat"]
subject = "{name}"
summary = "up to {entries} of {current} conntrack entries in use; {evictions} connections evicted for lack of space since boot"
why = "A connection that finds the table full is dropped without an answer, and its client retries after one and two seconds."
look_at = "`conntrack -S`, and `conntrack -L | awk '{print $4}' | sort | uniq -c`: mostly TIME_WAIT? Then shorter timeouts help more."
silent_when = "At most 80 % of the table was in use within two hours and no connection was evicted since boot; or nothing is tracked. The kernel's `drop` counter alone proves nothing: it also has packets that raced for one entry (conntrack.dropped)."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/nf_conntrack-sysctl.rst"
[setting]
risk = "About 0.3 KiB of kernel memory per connection."
interaction = "Raise nf_conntrack_buckets to a quarter of it, otherwise its hash chains grow long. It is one limit for the whole host. Best is not to track the proxy's ports at all: `notrack` in nftables' raw table."
---*/
with tables as (
  select host, netns, max(entries) as entries, max(early_drops_total) as evictions,
    last_value(entries_limit order by ts) as entries_limit
  from conntrack_stat
  where ts > $now - interval '2 hours' and ts <= $now
  group by host, netns
),
counted as (
  select host, max(entries) as entries, max(entries_limit) as current, sum(evictions) as evictions
  from tables where entries_limit is not null
  group by host
)
select host, 'net.netfilter.nf_conntrack_max' as name, current, 2 * current as suggested, entries, evictions
from counted
where evictions > 0 or entries >= 0.8 * current
