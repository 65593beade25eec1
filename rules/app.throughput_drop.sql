/*---
id = "app.throughput_drop"
title = "Far fewer requests than usual at this time of day"
tier = "app"
class = "mail"
for = "2m"
every = "60s"
clear = "5m"
key = ["tier_seen", "source"]
prefers = ["app.down", "tcp.listen_overflow", "wire.syn_blackhole", "wire.host_unreachable", "lb.too_few_healthy", "log.ship_lag", "weir.agent_silent"]
needs = ["request"]
when = "select 1 from request where ts > $now - interval '1 day' - interval '10 minutes' and ts <= $now - interval '1 day' limit 1"
explains = ["traffic.unusual"]
subject = "requests in {source} of {host}"
summary = "{source} on {host}: {requests} requests in 10 minutes, against {least} to {most} at this time of the last {days} days"
why = "Requests can stay away without anything failing: a name that points elsewhere, a balancer that sends the traffic to others, a broken feed, a form whose button does nothing. Requests that do arrive are served well, so no other rule fires."
look_at = "Do the siblings miss them as well (`select host, count(*) from request … group by 1`)? One host: balancer, its health check. All: DNS, certificate, the provider's line, a release that changed the page. Does the log itself continue: log.ship_lag, log.rotated_unfinished? A holiday?"
silent_when = "At least half of the smallest count of the same ten minutes on the last seven days (a default), fewer than 3 such days in the store, or fewer than 200 requests in each of them. Holidays look like a fault. A new or renamed source has no history. Sites whose weekends are below half of a weekday are compared with their own quietest day."
fix = "Follow a client's path from outside: `dig NAME` at two public resolvers, `curl -v https://NAME/` from outside the network, then the balancer's own counts, and stop where the number of requests falls. Undo the last change there. Check: requests of the next ten minutes are back in the range of the other days."
source = "field notes C (a stream that continues with less volume); the range of the same time on other days instead of a fixed threshold"
[chart]
title = "Requests per minute"
unit = ""
sql = """
select date_trunc('minute', ts) as ts, count(*) as requests from request
where host = {host} and source = {source} and ts > $now - interval '6 hours' and ts <= $now group by 1 order by 1"""
---*/
with slots as (
  select 0 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '10 minutes' and ts <= $now group by host, tier, source
  union all
  select 1 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '1 day' - interval '10 minutes' and ts <= $now - interval '1 day' group by host, tier, source
  union all
  select 2 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '2 days' - interval '10 minutes' and ts <= $now - interval '2 days' group by host, tier, source
  union all
  select 3 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '3 days' - interval '10 minutes' and ts <= $now - interval '3 days' group by host, tier, source
  union all
  select 4 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '4 days' - interval '10 minutes' and ts <= $now - interval '4 days' group by host, tier, source
  union all
  select 5 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '5 days' - interval '10 minutes' and ts <= $now - interval '5 days' group by host, tier, source
  union all
  select 6 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '6 days' - interval '10 minutes' and ts <= $now - interval '6 days' group by host, tier, source
  union all
  select 7 as day, host, tier, source, count(*) as requests from request
  where ts > $now - interval '7 days' - interval '10 minutes' and ts <= $now - interval '7 days' group by host, tier, source
),
compared as (
  select host, tier as tier_seen, source,
    coalesce(sum(requests) filter (where day = 0), 0) as requests,
    count(*) filter (where day > 0) as days,
    min(requests) filter (where day > 0) as least,
    max(requests) filter (where day > 0) as most
  from slots
  group by host, tier, source
)
select host, tier_seen, source, requests, days, least, most, cast(requests as double) / least as ratio
from compared
where days >= 3 and least >= 200 and requests < 0.5 * least
