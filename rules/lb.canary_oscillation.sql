/*---
id = "lb.canary_oscillation"
title = "Pool member oscillates under latency-based balancing"
tier = "proxy"
class = "mail"
for = "30s"
every = "60s"
clear = "2m"
key = ["pool", "member"]
needs = ["request"]
when = """
select 1
from (
  select host, pool, count(*) as bins, avg(n) as mean, stddev(share) / avg(share) as variation
  from (
    select host, pool, member, n, cast(n as double) / sum(n) over (partition by host, pool, bin) as share
    from (
      select host, coalesce(nullif(proxy_backend, ''), server_address, '') as pool,
        coalesce(nullif(proxy_server, ''), upstream_address) as member,
        cast(floor((date_part('epoch', $now) - date_part('epoch', ts)) / 5) as bigint) as bin, count(*) as n
      from request
      where tier in ('proxy', 'edge') and coalesce(proxy_server, upstream_address) is not null
        and ts > $now - interval '60 seconds' and ts <= $now
      group by 1, 2, 3, 4
    )
  )
  group by host, pool, member
)
group by host, pool
having count(*) >= 3 and (
  max(case when mean >= 8 then variation end) > greatest(0.25, 0.7 * least(3.0, 0.8 * (count(*) - 1)) * median(variation))
  or min(case when mean >= 8 then bins end) <= 0.8 * max(bins))
limit 1"""
subject = "{member} of {pool} on {host}"
summary = "{member} of {pool} oscillates: {least} to {most} requests per 5 s with a period of about {period_seconds} s, while its {siblings} siblings are even (its share varies {times:.1}× as much)"
why = "A balancer that prefers the fastest member sends everything to the one that has just become fast; that slows it, traffic leaves, it becomes fast again. A changed member (a canary) that is slightly faster or slower than the others triggers it. Its latency then says nothing about the change under test."
look_at = "`request` of {member} and of a sibling side by side: requests per 5 s and upstream_header_seconds. Does latency follow the requests by half a period? What is different about this member: version, kernel settings, keep-alive, size?"
silent_when = "Fewer than 3 members, fewer than 10 requests per 5 s for each on average, a share that varies by less than 30 %, or less than 3× the siblings' median (less in pools of three or four, where siblings absorb the difference), or that varies without a period (a member taken out and put back once, a slow start). Slices of 5 s in which the pool has less than half its usual requests are excluded. Instance groups with changing members look similar."
fix = "Change the whole pool at once instead of one member, or give the canary a fixed share: nginx `server {member} weight=1;` beside `weight=9` for the others under plain round robin, HAProxy `balance roundrobin` with `weight`. If the balancer must use latency, let it pick the better of two at random (nginx `random two least_conn;`) instead of the best of all. Check: most and least of this finding converge."
source = "field notes A (the canary that the balancer loved and then left)"
[chart]
title = "Requests per member"
unit = ""
sql = """
select date_bin(interval '5 seconds', ts) as ts, coalesce(proxy_server, upstream_address) as member, count(*) as requests
from request where tier in ('proxy', 'edge') and host = {host} and coalesce(proxy_server, upstream_address) is not null
  and ts > $now - interval '5 minutes' and ts <= $now group by 1, 2 order by 1, 2"""
---*/
with counted as (
  select host, coalesce(nullif(proxy_backend, ''), server_address, '') as pool,
    coalesce(nullif(proxy_server, ''), upstream_address) as member,
    cast(floor((date_part('epoch', $now) - date_part('epoch', ts)) / 5) as bigint) as bin, count(*) as n
  from request
  where tier in ('proxy', 'edge') and coalesce(proxy_server, upstream_address) is not null
    and ts > $now - interval '3 minutes' and ts <= $now
  group by 1, 2, 3, 4
),
-- Shares of a slice with few requests, such as the first one, are noise.
bins as (
  select host, pool, bin, total
  from (
    select *, avg(total) over (partition by host, pool) as usual
    from (select host, pool, bin, sum(n) as total from counted group by host, pool, bin)
  )
  where total >= 0.5 * usual
),
members as (
  select host, pool, member, sum(n) as n from counted group by host, pool, member
),
shares as (
  select m.host, m.pool, m.member, b.bin, coalesce(c.n, 0) as n, cast(coalesce(c.n, 0) as double) / b.total as share
  from members m
  join bins b on b.host = m.host and b.pool = m.pool
  left join counted c on c.host = m.host and c.pool = m.pool and c.member = m.member and c.bin = b.bin
),
lags as (
  select *,
    lead(share, 2) over w as lag2, lead(share, 3) over w as lag3, lead(share, 4) over w as lag4, lead(share, 6) over w as lag6
  from shares
  window w as (partition by host, pool, member order by bin)
),
waves as (
  select host, pool, member, count(*) as bins, avg(n) as mean, min(n) as least, max(n) as most,
    stddev(share) / greatest(avg(share), 0.0001) as variation,
    corr(share, lag2) as corr2, corr(share, lag3) as corr3, corr(share, lag4) as corr4, corr(share, lag6) as corr6
  from lags
  group by host, pool, member
),
judged as (
  select *, least(coalesce(corr2, 0), coalesce(corr3, 0), coalesce(corr4, 0), coalesce(corr6, 0)) as trough,
    count(*) over (partition by host, pool) as members
  from waves
),
siblings as (
  select one.host, one.pool, one.member, median(other.variation) as usual
  from judged one
  join judged other on other.host = one.host and other.pool = one.pool and other.member <> one.member
  group by one.host, one.pool, one.member
)
select j.host, case when j.pool = '' then 'the pool' else j.pool end as pool, j.member, j.least, j.most, j.members - 1 as siblings,
  j.variation / greatest(s.usual, 0.05) as times, j.trough,
  case when j.trough = j.corr2 then 20 when j.trough = j.corr3 then 30 when j.trough = j.corr4 then 40 else 60 end as period_seconds
from judged j
join siblings s on s.host = j.host and s.pool = j.pool and s.member = j.member
where j.members >= 3 and j.bins >= 24 and j.mean >= 10
  and j.variation > 0.3 and j.variation > least(3.0, 0.8 * (j.members - 1)) * greatest(s.usual, 0.05) and j.trough < -0.4
