/*---
id = "softirq.backlog_drop"
title = "CPU packet backlog full: received packets dropped"
tier = "kernel"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = []
needs = ["softnet_stat", "sysctl"]
when = "select host from softnet_stat where ts > $now - interval '60 seconds' and ts <= $now group by host, cpu having max(drops_total) >= min(drops_total) + 5 limit 1"
explains = ["app.requests_stopped", "softirq.squeezed", "wire.loss", "wire.path_loss"]
subject = "packet backlog of {host}"
summary = "{host} dropped {drops} of {packets} received packets in the last minute ({share_percent:.3} %) at the CPU backlog, most on CPU {worst_cpu}; net.core.netdev_max_backlog = {limit_text}"
why = "Packets that one part of the kernel hands to another (loopback, veth and tunnels, receive steering) wait in a queue per CPU. It was full, so they were dropped before any socket saw them: TCP waits for a retransmission, datagrams are lost."
look_at = "softnet_stat per CPU: a single one (steering or one busy interrupt) or all? cpu_stat of that CPU: softirq near 100 % means it cannot keep up, little means bursts."
silent_when = "Fewer than 10 drops in a minute, or all of them within one sample. It becomes a page above 0.01 % of the packets and 100 drops. A NIC that overflows drops in its ring and not here (nic.ring_drop)."
fix = "{place}net.core.netdev_max_backlog = {wanted}, then `sysctl -w net.core.netdev_max_backlog={wanted}`; it takes effect at once and costs memory only while packets wait. If one CPU takes all, spread the load: `ethtool -L DEVICE combined N`, or receive steering in /sys/class/net/DEVICE/queues/rx-0/rps_cpus. Check: drops_total of softnet_stat stops rising."
source = "fault lab F18 (789 dropped); kernel net/core/dev.c, enqueue_to_backlog; Documentation/networking/scaling.rst"
[chart]
title = "Packets dropped at the backlog, since boot"
unit = ""
sql = """
select ts, sum(drops_total) as drops from softnet_stat
where host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with steps as (
  select host, cpu, ts,
    drops_total - lag(drops_total) over w as drops,
    packets_total - lag(packets_total) over w as packets
  from softnet_stat
  where ts > $now - interval '60 seconds' and ts <= $now
  window w as (partition by host, cpu order by ts)
),
processors as (
  select host, cpu, sum(drops) as drops, sum(packets) as packets,
    count(*) filter (where drops > 0) as samples,
    row_number() over (partition by host order by sum(drops) desc, cpu) as place
  from steps
  where drops >= 0 and packets >= 0
  group by host, cpu
),
hosts as (
  select host, sum(drops) as drops, sum(packets) as packets, sum(samples) as samples,
    max(case when place = 1 then cpu end) as worst_cpu
  from processors
  group by host
),
setting as (
  select host, try_cast(value as bigint) as backlog_limit, set_in,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.core.netdev_max_backlog' and ts > $now - interval '2 hours' and ts <= $now
)
select h.host, h.drops, h.packets, h.worst_cpu, 100.0 * h.drops / greatest(h.packets, 1) as share_percent, s.backlog_limit,
  coalesce(cast(s.backlog_limit as varchar), 'unknown') as limit_text,
  greatest(4 * coalesce(s.backlog_limit, 1000), 4000) as wanted,
  case when s.set_in is not null then concat(s.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place,
  case when h.drops >= 100 and h.drops > 0.0001 * h.packets then 'page' else 'mail' end as class
from hosts h
left join setting s on s.host = h.host and s.place = 1
where h.drops >= 10 and h.samples >= 2
