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
summary = "{entries} of {current} conntrack entries in use; {drops} packets dropped for lack of space since boot"
why = "A connection that finds the table full is dropped without an answer, and its client retries after one and two seconds."
look_at = "`conntrack -S`, and `conntrack -L | awk '{print $4}' | sort | uniq -c`: mostly TIME_WAIT? Then shorter timeouts help more."
silent_when = "Less than 80 % of the table is in use and nothing was dropped since boot; or nothing is tracked."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/nf_conntrack-sysctl.rst"
[setting]
risk = "About 0.3 KiB of kernel memory per connection."
interaction = "Raise nf_conntrack_buckets to a quarter of it, otherwise its hash chains grow long. It is one limit for the whole host. Best is not to track the proxy's ports at all: `notrack` in nftables' raw table."
---*/
with newest as (
  select host, netns, entries, entries_limit, drops_total,
    row_number() over (partition by host, netns order by ts desc) as place
  from conntrack_stat
  where ts > $now - interval '2 hours' and ts <= $now
),
counted as (
  select host, max(entries) as entries, max(entries_limit) as current, sum(drops_total) as drops
  from newest where place = 1 and entries_limit is not null
  group by host
)
select host, 'net.netfilter.nf_conntrack_max' as name, current, 2 * current as suggested, entries, drops
from counted
where drops > 0 or entries >= 0.8 * current
