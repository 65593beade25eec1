/*---
id = "tune.local_port_range"
title = "Outgoing connections exhaust local ports"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl", "sock_stat", "tcp_stat"]
subject = "{name}"
summary = "up to {outgoing} outgoing connections in TIME_WAIT, {share:%} of the {width} local ports of `{current}`"
why = "Each connection to the same address and port of an upstream needs its own local port, and holds it for 60 s after closing. If none is free, connect() fails with `Cannot assign requested address` and clients get 502."
look_at = "`ss -tan state time-wait | awk '{print $4}' | sort | uniq -c | sort -n | tail`: to which upstream? The limit is per source, destination and destination port, so many upstreams share the range without harm."
silent_when = "Outgoing connections in TIME_WAIT are fewer than half of the range. TIME_WAIT lasts 60 s, so at most as many are outgoing as the host opened within a minute (ActiveOpens); the others are those of clients, at a listening port, and need no local port."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/ip-sysctl.rst"
[setting]
risk = "A program that listens on a port above 10240 may find it taken at its start."
interaction = "Add your own listeners' ports above 10240 to net.ipv4.ip_local_reserved_ports. Keep-alive to the upstream (nginx `keepalive 64;`) helps more. tcp_tw_reuse=1 helps the connecting side only; tcp_tw_recycle was removed and broke clients behind NAT."
---*/
with setting as (
  select host, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where name = 'net.ipv4.ip_local_port_range' and netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host
),
waiting as (
  select host, max(tcp_time_wait) as time_wait, count(distinct ts) as seconds
  from sock_stat
  where netns = 'host' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
opened as (
  select host, sum(increase) as opened, max(value) as opened_since_boot
  from tcp_stat
  where netns = 'host' and counter = 'ActiveOpens' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
outgoing as (
  -- `weir tune` samples for a few seconds only, so the rate stands for the minute.
  select w.host, w.time_wait,
    cast(least(w.time_wait, o.opened_since_boot, 60 * o.opened / greatest(w.seconds - 1, 1)) as bigint) as outgoing
  from waiting w join opened o on o.host = w.host
),
ranges as (
  select host, current, set_in,
    cast(split_part(current, ' ', 2) as bigint) - cast(split_part(current, ' ', 1) as bigint) + 1 as width
  from setting
)
select r.host, 'net.ipv4.ip_local_port_range' as name, r.current, '10240 65535' as suggested, r.set_in, r.width, w.time_wait,
  w.outgoing, cast(w.outgoing as double) / r.width as share
from ranges r join outgoing w on w.host = r.host
where 2 * w.outgoing >= r.width and r.width < 50000
