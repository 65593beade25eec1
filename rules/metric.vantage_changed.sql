/*---
id = "metric.vantage_changed"
title = "Vantage point changed: times are not comparable"
tier = "proxy"
class = "note"
for = "0s"
every = "60s"
clear = "2m"
key = ["source"]
needs = ["request"]
when = "select 1 from request where client_address is not null and ts > $now - interval '65 minutes' and ts <= $now - interval '60 minutes' limit 1"
subject = "{source} of {host}"
summary = "requests of {source} on {host} now come from {peers_text}: the {top_peers} busiest peers sent {past_share:%} of them an hour ago and send {share:%} now"
why = "A server measures until its peer has the response. When the peer becomes a nearby balancer instead of a phone, measured times fall without any page getting faster; the other way round they rise without a fault. Client addresses, connections per client and errors by client change their meaning as well."
look_at = "`select client_address, count(*) from request where host = '{host}' and source = '{source}' and ts > now() - interval '5 minutes' group by 1 order by 2 desc limit 10`: are these your balancer's addresses? Is there an X-Forwarded-For now (log `$http_x_forwarded_for`)?"
silent_when = "The share of the busiest peers moved by less than half of all requests, or fewer than 200 requests in one of the two periods. A load test from one machine looks the same, and so does a nightly crawler with half of all requests."
fix = "Note the hour, and compare times across it only at a common vantage point: the client's own (a beacon), or an outside probe. Behind a balancer, log the real client: nginx `set_real_ip_from {example_peer}; real_ip_header X-Forwarded-For;`, HAProxy `option forwardfor` in front. Check: this note clears an hour after the change, when both periods lie behind it."
source = "field notes A (a fall from 200 to 30 ms was a move of the place of measurement; the gain was 270 to 212)"
[chart]
title = "Requests by peer"
unit = ""
sql = """
select date_bin(interval '5 minutes', ts) as ts, count(distinct client_address) as peers, count(*) as requests from request
where host = {host} and source = {source} and ts > $now - interval '3 hours' and ts <= $now group by 1 order by 1"""
---*/
with peers as (
  select host, source, client_address, ts > $now - interval '10 minutes' as is_now, count(*) as n
  from request
  where tier in ('proxy', 'edge') and client_address is not null
    and ((ts > $now - interval '5 minutes' and ts <= $now)
      or (ts > $now - interval '65 minutes' and ts <= $now - interval '60 minutes'))
  group by 1, 2, 3, 4
),
ranked as (
  select *, row_number() over (partition by host, source, is_now order by n desc, client_address) as place
  from peers
),
sums as (
  select host, source,
    cast(sum(n) filter (where is_now and place <= 4) as double) / nullif(sum(n) filter (where is_now), 0) as share,
    cast(sum(n) filter (where not is_now and place <= 4) as double) / nullif(sum(n) filter (where not is_now), 0) as past_share,
    coalesce(sum(n) filter (where is_now), 0) as requests,
    coalesce(sum(n) filter (where not is_now), 0) as past_requests,
    count(*) filter (where is_now) as peers, count(*) filter (where not is_now) as past_peers,
    max(client_address) filter (where is_now and place = 1) as busiest,
    max(client_address) filter (where not is_now and place = 1) as past_busiest
  from ranked
  group by host, source
)
select host, source, share, past_share, requests, past_requests, 4 as top_peers,
  case when share > past_share then busiest else past_busiest end as example_peer,
  case when share > past_share then concat('a few peers such as ', busiest, ', no longer from ', past_peers, ' clients')
    else concat(peers, ' clients, no longer from a few peers such as ', past_busiest) end as peers_text
from sums
where requests >= 200 and past_requests >= 200 and abs(share - past_share) > 0.5
