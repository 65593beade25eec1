/*---
id = "beacon.gap"
title = "Beacons of visitors are lost on their way"
tier = "client"
class = "mail"
for = "60s"
every = "30s"
clear = "3m"
key = ["site"]
needs = ["beacon"]
when = "select 1 from beacon where sequence > 0 and ts > $now - interval '5 minutes' and ts <= $now limit 1"
subject = "beacons of {site}"
summary = "{lost} of {expected} beacons of {site} did not arrive in 5 minutes ({share:%}), from {visits_with_gap} of {visits} visits"
why = "Each page numbers its beacons from 0 and sends again what was not answered, so a hole in the numbers below the last one that came is a beacon that was lost for good. What is counted from beacons is too low by that share, and visitors whose network is bad are missing more than others."
look_at = "One network, one browser, one edge? `select client_address, count(*) from beacon … group by 1`, also by user_agent_original and host. Refused connections in edge_refusal, findings on the edge's listener (tcp.listen_overflow), a deploy that restarted edges, a name in DNS that still leads to an edge that is gone."
silent_when = "Fewer than 20 beacons lost, or less than 2 %; beacons without number or visit; programs that say they are (is_bot). Holes at the end of a visit cannot be seen, because closing a page looks the same. A page that keeps more than 20 beacons while its network is away drops the oldest: these count, and rightly."
fix = "Mend what is in the way of {site}'s beacons: let the path and its script through content blockers' lists and firewalls (serve it from the site's own name), raise the edge's backlog and connections when edge_refusal has rows. Check: lost of this finding falls."
source = "field notes A (pings lost for days after a server left DNS); the numbers 20 and 2 % are opinions"
---*/
with visits as (
  select coalesce(site, 'unknown') as site, visit, max(host) as host,
    max(sequence) - min(sequence) + 1 as expected, count(distinct sequence) as received
  from beacon
  where ts > $now - interval '5 minutes' and ts <= $now
    and visit is not null and sequence is not null and not is_bot
  group by 1, 2
)
select site, max(host) as host, count(*) as visits, sum(expected) as expected,
  sum(expected) - sum(received) as lost,
  count(*) filter (where received < expected) as visits_with_gap,
  cast(sum(expected) - sum(received) as double) / sum(expected) as share
from visits
group by site
having sum(expected) - sum(received) >= 20 and sum(expected) - sum(received) > 0.02 * sum(expected)
