/*---
id = "wire.jagged_arrivals"
title = "Bursty request arrivals, caused before this host"
tier = "wire"
class = "mail"
for = "4s"
every = "2s"
clear = "30s"
key = ["server_port"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where tier = 'wire_edge' and dispersion_100ms >= 5 and arrivals >= 20 and not is_lossy and ts > $now - interval '65 seconds' and ts <= $now limit 1"
subject = "{owner} before port {server_port} of {host}"
summary = "requests reach port {server_port} of {host} in bursts: {bursts} of {slices} seconds vary {worst_dispersion:.0}× as much as chance{past_text}; {cause_text}"
why = "Logs are written when requests complete, so only packets show when they arrived. Pauses and bursts before the host fill queues behind it although the mean rate is unchanged: the cause lies upstream of the edge, not in the servers."
look_at = "TCP timestamps distinguish the two causes: packets sent evenly that arrived together were held on the way (a carrier, a balancer, a firewall); packets sent together come from clients or a balancer that paused. `weir capture 10s --port {server_port}` and `weir wire FILE --slice 100ms --html page.html` produce the evidence to share."
silent_when = "Fewer than 20 arrivals in a second, fewer than 3 such seconds in a minute, or a variation below 5× chance, or below 3× the port's own median of an hour and a day ago. Batch jobs that start at the full second are bursty by nature: their history contains it. A few clients behind one balancer arrive in the balancer's rhythm. Seconds in which the tap lost packets do not count."
fix = "{fix_text} Check: dispersion_100ms of wire_slice is near 1 again. Do not add servers or workers for it: the mean load did not rise."
source = "fault lab 2_jagged_hold (packets held 1.2 s, delay variation 1,206 ms), 2b (clients paused, 4 ms), F09 (variance over mean 8.27 against 0.01)"
[text.fix_text]
network = "Send the capture to the carrier, or to the operator of the balancer or firewall in front: packets were held before they arrived."
senders = "Check the senders: a stalling balancer, a batching client, a queue drained by a timer. On this side a concurrency limit keeps bursts out of the application."
unknown = "Capture at the sender's end as well, to see whether packets left evenly."
[text.owner]
network = "the network"
senders = "the senders"
unknown = "the source"
[text.cause_text]
network = "packets were sent evenly and held on the way for up to {burst_delay:duration}"
senders = "packets arrived as they were sent: the clients, or a balancer before this host, pause and then send"
unknown = "most connections have no TCP timestamps, so held packets and pausing senders are indistinguishable"
[chart]
title = "Arrival dispersion (1 is chance), and network delay"
unit = ""
sql = """
select ts, max(dispersion_100ms) as dispersion, max(delay_variation_p95_seconds) as delay_seconds from wire_slice
where host = {host} and server_port = {server_port} and tier = 'wire_edge'
  and ts > $now - interval '10 minutes' and ts <= $now group by ts order by ts"""
---*/
with recent as (
  select host, server_port, arrivals, dispersion_100ms, delay_variation_p95_seconds as delay, think_p50_seconds as think,
    dispersion_100ms >= 5 and arrivals >= 20 as is_burst
  from wire_slice
  where tier = 'wire_edge' and not is_lossy and ts > $now - interval '65 seconds' and ts <= $now
),
now_ as (
  select host, server_port, count(*) as slices, count(*) filter (where is_burst) as bursts,
    max(dispersion_100ms) as worst_dispersion, sum(arrivals) as arrivals,
    max(delay) filter (where is_burst) as burst_delay, median(delay) as usual_delay, count(delay) as delays
  from recent
  group by host, server_port
  having count(*) >= 10 and count(*) filter (where is_burst) >= 3
),
past_rows as (
  select host, server_port, dispersion_100ms from wire_slice
  where tier = 'wire_edge' and arrivals >= 20 and ts > $now - interval '62 minutes' and ts <= $now - interval '60 minutes'
  union all
  select host, server_port, dispersion_100ms from wire_slice
  where tier = 'wire_edge' and arrivals >= 20 and ts > $now - interval '24 hours' and ts <= $now - interval '1438 minutes'
),
past as (
  select host, server_port, median(dispersion_100ms) as past_dispersion from past_rows group by host, server_port
),
judged as (
  select n.*, p.past_dispersion,
    case when n.delays * 2 < n.slices then 'unknown'
         when n.burst_delay >= 0.05 and n.burst_delay >= 5 * n.usual_delay then 'network'
         when n.burst_delay >= 0.05 and n.bursts * 2 >= n.slices then 'network'
         else 'senders' end as cause
  from now_ n left join past p on p.host = n.host and p.server_port = n.server_port
)
select host, server_port, slices, bursts, worst_dispersion, arrivals, burst_delay, usual_delay, past_dispersion, cause,
  cause as owner, cause as cause_text, cause as fix_text,
  case when past_dispersion is null then ''
       else concat(' (its own median: ', cast(round(10.0 * past_dispersion) / 10.0 as varchar), ')') end as past_text
from judged
where past_dispersion is null or worst_dispersion >= 3 * past_dispersion
