/*---
id = "db.replica_behind"
title = "Replica behind its primary, by both positions"
tier = "db"
class = "mail"
for = "5s"
every = "10s"
clear = "60s"
key = ["cluster", "member"]
prefers = ["pg.replica_lag", "db.not_answering"]
needs = ["db_member"]
when = [
  "select 1 from db_member where is_self and role <> 'primary' and position is not null and ts > $now - interval '20 seconds' and ts <= $now limit 1",
  """
select 1 from db_member
where is_self and cluster <> '' and position is not null and ts > $now - interval '90 seconds' and ts <= $now
group by cluster
having max(case when role = 'primary' then position end) > min(case when role <> 'primary' and ts > $now - interval '20 seconds' then position end)
limit 1""",
]
subject = "{member}"
summary = "{system} replica {member} is {behind_bytes:bytes} behind primary {primary}, {age_text}{chain_text}"
why = "Both servers were asked themselves: the primary had written this position {age_text} ago, and the replica has not applied it. Reads from it are that old, and a failover to it loses the difference. A relay's own report covers only the hop below it, so a chain can be behind although each link reports no lag."
look_at = "`select ts, member, role, source_member, position from db_member where cluster = '{cluster}' and is_self order by ts desc limit 30`. Along the chain the first member with a large difference is the slow one: its receiver (network, source's disk) or its applier (a long query, its disk, one busy CPU)."
silent_when = "Positions of both within 20 s are needed; the primary's newest position before the replica's sample counts, so a write in between is no lag. Less than 64 MiB and less than 30 s (defaults); an idle primary writes nothing, so its replicas are not behind, however old the last transaction is. A replica that is delayed on purpose (`recovery_min_apply_delay`) looks the same. MySQL reports no position in bytes: mysql.replica_lag."
fix = "{fix_text} Until then send fresh reads to {primary}. Check: the difference falls from sample to sample; if it grows, the replica cannot follow at this rate of writes."
source = "PostgreSQL documentation, 9.28 (pg_current_wal_lsn, pg_last_wal_replay_lsn) and 27.2.7 cascading replication; Redis INFO replication (master_repl_offset, slave_repl_offset)"
[text.age_text]
known = "{age_seconds:.0} s"
long = "more than an hour"
[text.chain_text]
direct = ""
relay_behind = "; its source {source_member} is itself {source_behind_bytes:bytes} behind"
relay_well = "; it replicates from {source_member}, which is well"
[text.fix_text]
direct = "Between it and its primary: packet loss, a full link, a slow disk, a query that blocks replay."
relay_behind = "Begin at {source_member}: what it has not applied, it cannot pass on. Meanwhile this one may follow the primary directly."
relay_well = "Between {source_member} and it: packet loss, a full link, its own disk, a query that blocks replay."
[chart]
title = "Position"
unit = "B"
sql = """
select ts, max(case when member = {member} then position end) as replica, max(case when role = 'primary' then position end) as primary_position
from db_member where cluster = {cluster} and is_self and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with own as (
  select m.host, m.system, m.cluster, m.member, m.server_address, m.role, m.source_member, m.position, m.ts
  from db_member m
  where is_self and cluster <> '' and position is not null and ts > $now - interval '1 hour' and ts <= $now
),
replicas as (
  select *, row_number() over (partition by host, member, cluster order by ts desc) as place
  from own where role <> 'primary' and ts > $now - interval '20 seconds'
),
pairs as (
  select r.host, r.system, r.cluster, r.member, r.source_member, r.position, r.ts,
    last_value(p.member order by p.ts) as primary, max(case when p.ts > r.ts - interval '20 seconds' then p.position end) as primary_position,
    min(case when p.position > r.position then p.ts end) as passed_ts, min(p.ts) as first_ts
  from replicas r
  join own p on p.cluster = r.cluster and p.role = 'primary' and p.ts <= r.ts
  where r.place = 1
  group by r.host, r.system, r.cluster, r.member, r.source_member, r.position, r.ts
),
behind as (
  select *, primary_position - position as behind_bytes, date_part('epoch', ts) - date_part('epoch', passed_ts) as age_seconds, passed_ts = first_ts as is_long
  from pairs
  where primary_position is not null
)
select b.host, b.system, b.cluster, b.member, b.primary, b.source_member, b.behind_bytes, b.age_seconds, s.behind_bytes as source_behind_bytes,
  case when b.is_long and b.age_seconds > 3500 then 'long' else 'known' end as age_text,
  case when s.member is null then 'direct' when 2 * s.behind_bytes > b.behind_bytes then 'relay_behind' else 'relay_well' end as chain_text,
  case when s.member is null then 'direct' when 2 * s.behind_bytes > b.behind_bytes then 'relay_behind' else 'relay_well' end as fix_text,
  case when b.age_seconds > 300 or b.behind_bytes > 1073741824 then 'page' else 'mail' end as class
from behind b
left join behind s on s.cluster = b.cluster and s.host = b.host and s.member = b.source_member
where b.behind_bytes >= 67108864 or b.behind_bytes > 0 and b.age_seconds > 30
