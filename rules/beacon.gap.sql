/*---
id = "beacon.gap"
title = "Lost client beacons"
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
why = "Each page numbers its beacons from 0 and resends unanswered ones, so a gap below the last number received is a beacon lost for good. Figures derived from beacons are too low by that share, and clients on bad networks are underrepresented."
look_at = "One network, one browser, one edge? `select client_address, count(*) from beacon … group by 1`, also by user_agent_original and host. Refused connections in edge_refusal, findings on the edge's listener (tcp.listen_overflow), a deploy that restarted edges, a DNS name that still points to a removed edge."
silent_when = "Fewer than 20 beacons lost, or less than 2 %; beacons without number or visit; declared bots (is_bot). Gaps at the end of a visit are invisible, because closing a page looks the same. A page that queues more than 20 beacons while offline drops the oldest: these count, rightly."
fix = "Remove what blocks {site}'s beacons: get the path and its script past content blockers and firewalls (serve it from the site's own name), raise the edge's backlog and connection limit if edge_refusal has rows. Check: lost of this finding falls."
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
