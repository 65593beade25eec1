/*---
id = "wire.bandwidth_cap"
title = "Bandwidth cap reached: device queue full"
tier = "wire"
class = "mail"
for = "3s"
every = "3s"
clear = "20s"
key = ["netns", "device", "handle"]
needs = ["qdisc"]
when = "select 1 from qdisc where (drops_total > 0 or rate_bytes_per_second is not null) and ts > $now - interval '20 seconds' and ts <= $now limit 1"
explains = [
  "app.requests_stopped", "client.aborts_499", "client.slow_reader", "pg.replica_lag", "wire.loss",
  "wire.mtu_blackhole", "wire.path_loss", "wire.slow_reader",
]
subject = "{device} of {host}"
summary = "queue {handle} ({kind}{rate_text}) of {device} on {host} (netns {netns}) {what_text} in {span_seconds:.0} s at {mebits_per_second:.1} Mbit/s{full_text}"
why = "Outgoing packets wait in this queue until the device or its rate limit releases them; if it is full they are dropped. TCP retransmits and slows down: responses arrive late, large ones most, while CPU, disk and application are idle."
look_at = "`tc -s qdisc show dev {device}`: dropped, overlimits, backlog. Is the `rate` the intended one, and the traffic normal (response sizes: `select url_path, sum(response_bytes) from request group by 1 order by 2 desc`)? Round-trip times rise with the backlog: rtt in tcp_conn. A rate enforced by the provider shows no drops here, only packet loss (wire.loss)."
silent_when = "Fewer than 10 dropped packets, fewer than 0.1 % (without a rate: 1 %) of the packets, or drops in fewer than 3 of 20 seconds; and, with a rate, less than 90 % of it or a queue that was empty in one sample in ten. A rate used up without drops is a note, and a mail if it was so for 4 of the last 5 minutes: a download may fill a link for a moment. Queues without a rate (fq_codel, pfifo_fast, fq) drop some packets of a flow on purpose when the link is full: a note. The provider's policers and limits are invisible."
fix = "Send less or allow more: compression and caching of large responses (nginx `gzip on;`, a CDN), or a higher rate: `tc qdisc change dev {device} {parent_text} handle {handle} tbf rate RATE burst BURST latency 50ms` for a rate set on this host (find where: `grep -rs tc /etc/network /etc/systemd/network`), a larger instance or link for a rate set by the provider. A longer queue (`limit`) only adds latency. Check: dropped of `tc -s qdisc` stops rising and the round-trip time falls."
source = "fault lab F25 (349 packets dropped at 4 Mbit/s, rtt 41 to 72 ms; after the first second senders on the same host are held back instead, and the queue stays full without drops); tc-tbf(8), linux/gen_stats.h"
[chart]
title = "Dropped packets"
unit = ""
sql = """
select ts, max(drops_total) as drops_total, max(backlog_packets) as backlog_packets from qdisc
where host = {host} and netns = {netns} and device = {device} and handle = {handle}
  and ts > $now - interval '10 minutes' and ts <= $now group by ts order by ts"""
---*/
with steps as (
  select host, netns, device, handle, kind, parent, rate_bytes_per_second, backlog_packets, ts,
    drops_total - lag(drops_total) over w as drops,
    sent_packets_total - lag(sent_packets_total) over w as packets,
    sent_bytes_total - lag(sent_bytes_total) over w as bytes,
    date_part('epoch', ts) - date_part('epoch', lag(ts) over w) as seconds
  from qdisc
  where ts > $now - interval '20 seconds' and ts <= $now
  window w as (partition by host, netns, device, handle, parent order by ts)
),
queues as (
  select host, netns, device, handle, max(kind) as kind, max(parent) as parent, max(rate_bytes_per_second) as rate_bytes_per_second,
    sum(drops) as drops, sum(packets) as packets, sum(bytes) as bytes, sum(seconds) as span_seconds,
    max(backlog_packets) as backlog_packets,
    count(*) filter (where drops > 0) as seconds_with_drops,
    count(*) as samples, count(*) filter (where backlog_packets > 0) as waiting_samples
  from steps
  where drops >= 0 and packets >= 0
  group by host, netns, device, handle
),
past as (
  select host, netns, device, handle, count(*) filter (where backlog_packets > 0) as waiting_seconds
  from qdisc
  where ts > $now - interval '5 minutes' and ts <= $now and rate_bytes_per_second is not null
  group by host, netns, device, handle
),
judged as (
  select q.*, coalesce(p.waiting_seconds, 0) as waiting_seconds,
    cast(q.drops as double) / greatest(q.drops + q.packets, 1) as drop_ratio,
    q.bytes * 8.0 / 1e6 / greatest(q.span_seconds, 1) as mebits_per_second,
    q.kind in ('tbf', 'htb', 'hfsc', 'cake', 'netem') as has_rate,
    coalesce(q.bytes > 0.9 * q.rate_bytes_per_second * q.span_seconds, false) as is_used_up
  from queues q
  left join past p on p.host = q.host and p.netns = q.netns and p.device = q.device and p.handle = q.handle
),
told as (
  select *,
    drops >= 10 and seconds_with_drops >= 3 and drop_ratio > (case when has_rate then 0.001 else 0.01 end) as is_dropping,
    is_used_up and waiting_samples >= 7 and waiting_samples >= 0.9 * samples as is_full
  from judged
)
select host, netns, device, handle, kind, parent, rate_bytes_per_second, drops, packets, span_seconds, drop_ratio, mebits_per_second,
  backlog_packets, seconds_with_drops, waiting_samples, samples, waiting_seconds,
  case when parent = 'root' then 'root' else concat('parent ', parent) end as parent_text,
  case when rate_bytes_per_second is not null then concat(', rate ', cast(round(rate_bytes_per_second * 8.0 / 1e4) / 100 as varchar), ' Mbit/s') else '' end as rate_text,
  case when is_dropping then concat('dropped ', drops, ' packets, ', cast(round(drop_ratio * 1000) / 10 as varchar), ' % of its traffic,')
       else concat('was not empty in ', waiting_samples, ' of ', samples, ' samples') end as what_text,
  case when is_used_up then ', its maximum' else '' end as full_text,
  case when has_rate and (is_dropping or waiting_seconds >= 240) then 'mail' else 'note' end as class
from told
where is_dropping or is_full
