/*---
id = "lb.uneven"
title = "Uneven load: one pool member gets too many requests"
tier = "proxy"
class = "mail"
for = "0s"
every = "6s"
clear = "3m"
key = ["pool"]
prefers = ["lb.too_few_healthy", "app.down", "wire.host_unreachable", "wire.syn_blackhole"]
needs = ["request", "config_directive"]
when = [
  """
select host from config_directive where directive = 'server' and ts > $now - interval '2 hours' and ts <= $now
group by host, context having count(distinct arguments) >= 2
union all select host from request where proxy_backend is not null and ts > $now - interval '3 minutes' and ts <= $now
limit 1""",
  "select host from request where tier = 'proxy' and coalesce(proxy_server, upstream_address) is not null and ts > $now - interval '60 seconds' and ts <= $now group by host having count(*) >= 100 limit 1",
  """
select host from (
  select host, proxy_backend, coalesce(proxy_server, upstream_address) as member, count(*) as n from request
  where tier = 'proxy' and coalesce(proxy_server, upstream_address) is not null and ts > $now - interval '15 seconds' and ts <= $now
  group by 1, 2, 3) members
group by host, proxy_backend having count(*) = 1 or max(n) * count(*) > 1.2 * sum(n)
limit 1""",
]
subject = "pool {pool} on {host}"
summary = "{busiest} gets {times:.1}× the mean of the {members} members of {pool} on {host}: {busiest_requests} of {requests} requests in {span_text}, in each third of it{method_text}"
why = "The busiest member is full while others are idle, so the pool is as slow as that one and has less capacity than it seems. When it fails, its whole load moves at once."
look_at = "How the balancer chooses: with a hash of the client address, one large network behind a single address (a company, a carrier, another proxy) goes to one member. Long connections: recently added members have few. Members marked down: nginx's error log, HAProxy's `Server … is DOWN`."
silent_when = "In one of the last three minutes fewer than 100 requests, at most 1.3× the mean, or a difference that chance explains (chi-square up to 10 times the degrees of freedom); within 15 s only 1.9× the mean in each of three slices of 5 s counts, with 50 requests each and a chi-square beyond 30 times; pools configured with `weight`, `backup`, `down` or `slowstart`. Members are those in the configuration; nginx upstreams written as host names cannot be matched with the log's addresses and are excluded. `least_conn` of HAProxy and nginx gives a faster member more: if that is intended, copy this rule without that pool."
fix = "{fix_text} Check: the members' requests per minute come within a third of their mean. Hashing is often used because sessions live in a member's memory: move them to a cookie or a shared store first."
source = "fault lab F29 (ip_hash behind one address: 4.0 times, round robin: 1.0 times); field notes A (1000 requests a second more on one member)"
[text.fix_text]
hash = "{method}: a hash of the client's address. Behind a balancer or a large network all clients share one address: delete the line (round robin), or hash a value that differs: nginx `hash $cookie_session consistent;`, HAProxy `balance leastconn` with `cookie`."
other = "Balance by connections: nginx `least_conn;` in the `upstream` block, HAProxy `balance leastconn`; with few long connections also recycle them (nginx `keepalive_requests 1000;`)."
[chart]
title = "Requests per member"
unit = ""
sql = """
select date_bin(interval '30 seconds', ts) as ts, coalesce(proxy_server, upstream_address) as member, count(*) as requests
from request where tier = 'proxy' and host = {host} and coalesce(proxy_server, upstream_address) is not null
  and ts > $now - interval '15 minutes' and ts <= $now group by 1, 2 order by 1, 2"""
---*/
with config as (
  select host, program, context, file, line, directive, arguments,
    case when program = 'haproxy' then split_part(arguments, ' ', 2) else split_part(arguments, ' ', 1) end as address,
    rank() over (partition by host, program, file order by ts desc) as place
  from config_directive
  where directive in ('server', 'ip_hash', 'least_conn', 'balance', 'default-server')
    and (context like '%upstream %' or context like 'backend %' or context like 'listen %')
    and ts > $now - interval '2 hours' and ts <= $now
),
pools as (
  select host, program, context,
    count(*) filter (where directive = 'server') as configured,
    max(case when directive in ('server', 'default-server') and regexp_like(arguments, '(^| )(weight|backup|down|slow_start|slowstart|disabled)') then 1 else 0 end) as is_unequal,
    max(case when directive in ('ip_hash', 'least_conn') then concat(file, ':', line, ': ', directive)
             when directive = 'balance' then concat(file, ':', line, ': balance ', arguments) end) as method
  from config
  where place = 1
  group by host, program, context
),
addresses as (
  select c.host, c.address, max(c.context) as context
  from config c
  where c.place = 1 and c.directive = 'server'
  group by c.host, c.address
),
counted as (
  select r.host, cast(floor((date_part('epoch', $now) - date_part('epoch', r.ts)) / 60) as bigint) as slice,
    coalesce(nullif(r.proxy_backend, ''), '') as backend,
    coalesce(nullif(r.proxy_server, ''), r.upstream_address) as member, r.upstream_address, count(*) as requests
  from request r
  where r.ts > $now - interval '3 minutes' and r.ts <= $now and r.tier = 'proxy'
    and coalesce(r.proxy_server, r.upstream_address) is not null
  group by 1, 2, 3, 4, 5
  union all
  -- Slices of 5 s, for clear cases.
  select r.host, 100 + cast(floor((date_part('epoch', $now) - date_part('epoch', r.ts)) / 5) as bigint) as slice,
    coalesce(nullif(r.proxy_backend, ''), '') as backend,
    coalesce(nullif(r.proxy_server, ''), r.upstream_address) as member, r.upstream_address, count(*) as requests
  from request r
  where r.ts > $now - interval '15 seconds' and r.ts <= $now and r.tier = 'proxy'
    and coalesce(r.proxy_server, r.upstream_address) is not null
  group by 1, 2, 3, 4, 5
),
placed as (
  select c.host, c.slice, c.member, c.requests, coalesce(b.context, a.context) as context,
    case when c.backend <> '' then c.backend else regexp_match(a.context, 'upstream ([^/]+)')[1] end as pool
  from counted c
  left join addresses a on a.host = c.host and a.address = c.upstream_address
  left join pools b on b.host = c.host and b.program = 'haproxy' and b.context in (concat('backend ', c.backend), concat('listen ', c.backend))
  where c.backend <> '' or a.context is not null
),
members as (
  select host, pool, max(context) as context, slice, member, sum(requests) as requests
  from placed
  group by host, pool, slice, member
),
seen as (
  select host, pool, count(distinct member) as seen from members group by host, pool
),
slices as (
  select m.host, m.pool, m.slice, max(p.method) as method, max(p.is_unequal) as is_unequal,
    greatest(max(s.seen), coalesce(max(p.configured), 0)) as members,
    sum(m.requests) as requests, max(m.requests) as most, sum(m.requests * m.requests) as squares
  from members m
  join seen s on s.host = m.host and s.pool = m.pool
  left join pools p on p.host = m.host and p.context = m.context
  group by m.host, m.pool, m.slice
),
verdicts as (
  select host, pool, slice >= 100 as is_short, max(method) as method, max(members) as members, sum(requests) as requests,
    count(*) filter (where members >= 2 and case
      when slice < 100 then requests >= 100 and most * members > 1.3 * requests
        and cast(squares * members as double) / requests - requests > 10 * (members - 1)
      else requests >= 50 and most * members > 1.9 * requests
        and cast(squares * members as double) / requests - requests > 30 * (members - 1) end) as bad_slices
  from slices
  where coalesce(is_unequal, 0) = 0 and slice < 103
  group by host, pool, slice >= 100
),
judged as (
  select *, row_number() over (partition by host, pool order by is_short) as place
  from verdicts
  where bad_slices = 3
),
busiest as (
  select host, pool, slice >= 100 as is_short, member, sum(requests) as requests,
    row_number() over (partition by host, pool, slice >= 100 order by sum(requests) desc, member) as place
  from members
  group by host, pool, member, slice >= 100
)
select j.host, j.pool, j.members, j.requests, j.method, b.member as busiest, b.requests as busiest_requests,
  cast(b.requests * j.members as double) / j.requests as times,
  case when j.is_short then '15 s' else '3 minutes' end as span_text,
  case when j.method is not null then concat('; ', j.method) else '' end as method_text,
  case when j.method like '%ip_hash%' or j.method like '%source%'
    then 'hash'
    else 'other' end as fix_text
from judged j
join busiest b on b.host = j.host and b.pool = j.pool and b.is_short = j.is_short and b.place = 1
where j.place = 1
