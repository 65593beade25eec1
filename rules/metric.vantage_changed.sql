/*---
id = "metric.vantage_changed"
title = "Something was put in front of this server, or taken away: its times measure another thing now"
tier = "proxy"
class = "note"
for = "0s"
every = "60s"
clear = "2m"
key = ["source"]
needs = ["request"]
when = "select 1 from request where client_address is not null and ts > $now - interval '65 minutes' and ts <= $now - interval '60 minutes' limit 1"
subject = "{source} of {host}"
summary = "{source} of {host} has its requests from {peers_text} since the last hour: the {top_peers} busiest peers sent {past_share:%} of them an hour ago and send {share:%} now"
why = "A server measures from the moment in which its peer's request is there to the moment in which its peer has the answer. When the peer is a balancer a room away and no longer a phone, that time falls by itself, and nobody's page is quicker for it; the other way round it rises, and nobody did anything wrong. Client addresses, connections per client and errors by client change their meaning as well."
look_at = "`select client_address, count(*) from request where host = '{host}' and source = '{source}' and ts > now() - interval '5 minutes' group by 1 order by 2 desc limit 10`: are these your balancer's addresses? Is there an X-Forwarded-For now (log `$http_x_forwarded_for`)?"
silent_when = "The share of the busiest peers moved by less than half of all requests, or there are fewer than 200 requests in one of the two times. A load test from one machine looks the same, and so does a crawler at night that is half of all requests."
fix = "Note the hour, and compare times before and after only with what was measured at the same place: the visitor's own (a beacon), or a probe from outside. Behind a balancer, log who the visitor is: nginx `set_real_ip_from {example_peer}; real_ip_header X-Forwarded-For;`, HAProxy `option forwardfor` in front. Check: this note clears by itself an hour after the change, when both times lie behind it."
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
  case when share > past_share then concat('a few peers such as ', busiest, ' and no longer from ', past_peers, ' visitors')
    else concat(peers, ' visitors and no longer from a few peers such as ', past_busiest) end as peers_text
from sums
where requests >= 200 and past_requests >= 200 and abs(share - past_share) > 0.5
