/*---
id = "dns.removed_still_hit"
title = "Traffic to a host removed from DNS"
tier = "client"
class = "mail"
for = "0s"
every = "20s"
clear = "5m"
key = ["name"]
needs = ["name_probe", "request"]
when = "select 1 from name_probe where is_here = false and ts > $now - interval '3 minutes' and ts <= $now limit 1"
subject = "{name} on {host}"
summary = "{host} still gets {requests} requests for {name} in 5 minutes: {share:%} of all for it, from {clients_text}{busiest_text}; DNS points to {addresses_text} since {away_seconds:duration}, {lives:.0}× the TTL of {ttl_seconds} s{forecast_text}"
why = "Resolvers, programs and phones keep an address long past its TTL. Switching the host off now cuts these clients off: they see a dead site while every check reports that all is well."
look_at = "Which clients: `select client_address, user_agent_original, count(*) from request where host = '{host}' and server_address = '{name}' and ts > now() - interval '1 hour' group by 1, 2 order by 3 desc`. A few addresses with many requests: a partner or crawler with a hard-coded address; contact them. Many with few: resolvers, they fade within days."
silent_when = "The name points to this host, or never did within the last week as far as weir saw (behind a balancer or NAT it never does, and this rule cannot tell); less than two TTLs since the change, or only one probe since; one of the ten probes before also pointed elsewhere (a server that rotates addresses); at most 0.5 % of the name's requests (a default), or fewer than 5 in 5 minutes: then this finding ends and {host} can be retired. The forecast extrapolates the share of an hour ago and of now; there is none in the first hour. Requests count only where the log has the requested name (nginx: `$host`)."
fix = "Keep {host} serving: do not switch it off or close its ports until this finding is resolved: by then at most one in two hundred of {name}'s requests comes here, mostly from programs. To speed it up, forward to the new address with `proxy_pass` instead of serving (invisible to clients), or `return 308 https://{name}$request_uri;` only if the new site has another name. Before the next move lower the TTL a week ahead. Check: share falls."
source = "field notes A (removed addresses hit for days); fault lab F35 (20 SYN served, then 20 RST after the listener was closed); RFC 1035 §3.2.1"
[chart]
title = "Requests for the name on this host"
unit = ""
sql = """
select date_trunc('minute', ts) as ts, count(*) as requests from request
where host = {host} and lower(server_address) = {name} and ts > $now - interval '1 day' and ts <= $now group by 1 order by 1"""
---*/
with answers as (
  select host, name, is_here, addresses, ttl_seconds, ts,
    row_number() over (partition by host, name order by ts desc) as place
  from name_probe
  where is_here is not null and ts > $now - interval '7 days' and ts <= $now
),
looks as (
  select *, max(ts) filter (where is_here) over (partition by host, name) as left_ts
  from answers
),
steadiness as (
  select host, name,
    count(*) filter (where ts > left_ts) as away_looks,
    count(*) filter (where not is_here and ts < left_ts and ts > left_ts - interval '10 minutes') as strays
  from looks
  group by host, name
),
pasts as (
  select host, name, max(ts) filter (where is_here) as left_ts, max(ttl_seconds) filter (where is_here) as ttl_seconds
  from answers
  group by host, name
),
gone as (
  select a.host, a.name, a.addresses, coalesce(p.ttl_seconds, 0) as ttl_seconds,
    date_part('epoch', $now) - date_part('epoch', p.left_ts) as away_seconds
  from answers a
  join pasts p on p.host = a.host and p.name = a.name
  join steadiness s on s.host = a.host and s.name = a.name and s.away_looks >= 2 and s.strays = 0
  where a.place = 1 and not a.is_here and a.ts > $now - interval '3 minutes' and p.left_ts is not null
),
by_client as (
  select host, lower(server_address) as name, client_address, count(*) as requests
  from request
  where tier in ('proxy', 'edge') and server_address is not null and ts > $now - interval '5 minutes' and ts <= $now
  group by 1, 2, 3
),
placed as (
  select *, row_number() over (partition by host, name order by requests desc, client_address) as place
  from by_client
),
counted as (
  select host, name, sum(requests) as requests, count(distinct client_address) as clients,
    max(case when place = 1 then requests end) as busiest_requests,
    max(case when place = 1 then client_address end) as busiest
  from placed
  group by 1, 2
),
totals as (
  select name, sum(requests) as requests from counted group by name
),
hour_ago as (
  select host, lower(server_address) as name, count(*) as requests
  from request
  where tier in ('proxy', 'edge') and server_address is not null
    and ts > $now - interval '65 minutes' and ts <= $now - interval '60 minutes'
  group by 1, 2
),
shares as (
  select h.host, h.name, cast(h.requests as double) / sum(h.requests) over (partition by h.name) as share
  from hour_ago h
)
select g.host, g.name, g.ttl_seconds, g.away_seconds, c.requests, t.requests as all_requests,
  cast(c.requests as double) / t.requests as share,
  g.away_seconds / greatest(g.ttl_seconds, 1) as lives,
  case when g.addresses = '' then 'nowhere' else g.addresses end as addresses_text,
  case when c.clients = 1 then '1 address' else concat(c.clients, ' addresses') end as clients_text,
  case when c.busiest is null then '' else concat(', ', cast(c.busiest_requests as bigint), ' of them from ', c.busiest) end as busiest_text,
  case
    when s.share is null or g.away_seconds < 3900 + g.ttl_seconds then ''
    when s.share < 1.05 * c.requests / t.requests then '; the share does not fall'
    else concat('; at this rate below 0.5 % in about ',
      cast(ceil(ln(cast(c.requests as double) / t.requests / 0.005) / ln(s.share * t.requests / c.requests)) as bigint), ' h')
  end as forecast_text
from gone g
join counted c on c.host = g.host and c.name = g.name
join totals t on t.name = g.name
left join shares s on s.host = g.host and s.name = g.name
where g.away_seconds > 2 * g.ttl_seconds and g.away_seconds > 60
  and c.requests >= 5 and c.requests > 0.005 * t.requests
