/*---
id = "kernel.new_drop_counter"
title = "A drop or error counter began to rise"
tier = "kernel"
class = "note"
for = "0s"
every = "30s"
clear = "10m"
key = ["netns", "counter"]
needs = ["tcp_stat", "softnet_stat", "net_dev"]
subject = "{counter} in netns {netns}"
summary = "{counter} (netns {netns}) rose by {rise} in 5 minutes ({rises} samples); it {before_text}"
why = "A counter of dropped, overflowing, pruned or failed items began to rise. No rule covers it specifically, but new drops are seldom good: this rule is the safety net."
look_at = "What the counter means: `nstat -az {counter_name}`, kernel Documentation/networking/snmp_counter.rst. What changed when it began (a deploy, a sysctl, more traffic): open findings and tcp_stat around started_ts."
silent_when = "The counter was above zero and moved since 1, 6 or 24 hours ago (or has no sample of then), rose in fewer than 3 samples or by fewer than 3 in 5 minutes, or has a rule (ListenOverflows, ListenDrops, TCPReqQFull…). Counters that rise on every healthy host are excluded: refused connection attempts (AttemptFails), undone recoveries (TCPFullUndo), deferred accepts, packets of unknown protocols (rx_drops)."
fix = "Change nothing before you know the counter: read what it means and find what began with it. Common ones: TCPBacklogDrop = the process holds its socket's lock too long (small numbers are harmless); TCPRcvQDrop, PruneCalled = it does not read; RcvbufErrors = UDP reader too slow, raise net.core.rmem_max and the program's SO_RCVBUF; softnet drops = raise net.core.netdev_max_backlog."
source = "field notes A: \"dropped or overflow rising cannot be good\"; kernel include/uapi/linux/snmp.h"
---*/
with moved as (
  select host, netns, concat(protocol, '.', counter) as counter, counter as counter_name,
    min(value - increase) as value_before, sum(increase) as rise, count(*) as rises
  from tcp_stat
  where ts > $now - interval '5 minutes' and ts <= $now and increase > 0
    and regexp_like(counter, 'Drop|Overflow|Prune|Full|Fail|Err|NoPorts')
    and counter not in ('ListenOverflows', 'ListenDrops', 'AttemptFails', 'TCPFullUndo', 'TCPDeferAcceptDrop', 'NoPorts',
      'TCPReqQFullDoCookies', 'TCPReqQFullDrop', 'TCPTimeWaitOverflow',
      'TCPSackFailures', 'TCPLossFailures', 'TCPRenoFailures', 'TCPHystartTrainDetect', 'InCsumErrors')
    and protocol not in ('Icmp', 'IcmpMsg', 'Icmp6')
  group by host, netns, protocol, counter
  having count(*) >= 3 and sum(increase) >= 3
),
earlier as (
  select host, netns, protocol, counter, value, ts from tcp_stat
  where ts > $now - interval '24 hours' and ts <= $now - interval '1438 minutes'
  union all
  select host, netns, protocol, counter, value, ts from tcp_stat
  where ts > $now - interval '6 hours' and ts <= $now - interval '358 minutes'
  union all
  select host, netns, protocol, counter, value, ts from tcp_stat
  where ts > $now - interval '1 hour' and ts <= $now - interval '58 minutes'
),
history as (
  select host, netns, concat(protocol, '.', counter) as counter, min(value) as least, max(value) as most
  from earlier
  group by host, netns, protocol, counter
),
counters as (
  select m.host, m.netns, m.counter, m.counter_name, m.rise, m.rises,
    case when m.value_before = 0 then 'had never moved since boot'
         else 'had not moved for at least an hour' end as before_text
  from moved m
  left join history h on h.host = m.host and h.netns = m.netns and h.counter = m.counter
  where m.value_before = 0
     or (h.least = h.most and m.value_before = h.most)
),
softnet as (
  select host, 'host' as netns, concat('softnet drops of CPU ', cpu) as counter, 'softnet' as counter_name,
    max(drops_total) - min(drops_total) as rise, count(distinct drops_total) - 1 as rises,
    'had never moved since boot' as before_text
  from softnet_stat
  where ts > $now - interval '5 minutes' and ts <= $now
  group by host, cpu
  having min(drops_total) = 0 and count(distinct drops_total) > 3 and max(drops_total) >= 3
),
devices as (
  select host, netns, device, ts, rx_errors_total + rx_fifo_errors_total + tx_errors_total + tx_drops_total as total
  from net_dev
  where ts > $now - interval '5 minutes' and ts <= $now
),
device_drops as (
  select host, netns, concat('errors and drops of device ', device) as counter, 'net_dev' as counter_name,
    max(total) - min(total) as rise, count(distinct total) - 1 as rises,
    'had never moved since boot' as before_text
  from devices
  group by host, netns, device
  having min(total) = 0 and count(distinct total) > 3 and max(total) >= 3
)
select * from counters
union all select * from softnet
union all select * from device_drops
