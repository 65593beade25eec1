/*---
id = "db.two_primaries"
title = "Two primaries accept writes in one cluster"
tier = "db"
class = "page"
for = "5s"
every = "5s"
clear = "60s"
key = ["cluster"]
needs = ["db_member"]
when = "select 1 from db_member where is_self and role = 'primary' and cluster <> '' and ts > $now - interval '15 seconds' and ts <= $now group by cluster having count(distinct server_address) > 1 limit 1"
subject = "{system} cluster {cluster}"
summary = "{system}: {primaries} primaries of one cluster accept writes: {members}{term_text}"
why = "{why_text}"
look_at = "Which one do applications write to? `select server_address, role, term, position from db_member where cluster = '{cluster}' and is_self order by ts desc limit 20`. Which was promoted last has the higher term (PostgreSQL's timeline)."
silent_when = "One writable primary, or the others are read-only. Members are compared by PostgreSQL's system identifier and Redis' replication id; MySQL has none. A copy that was restored from a backup for tests has the same identifier: if no member was a replica within the last 24 hours, and their terms differ or none has replicas, it is a note."
fix = "Stop writes to the one with the lower term now (take it out of the pool or set `default_transaction_read_only = on`), before the copies differ further. Find the changes that only it has, then rebuild it as a replica: `pg_rewind` or a new base backup. A copy for tests: move it to a separate network, or load a dump into a new cluster, which gets a new identifier. Check: one primary is left. Never let both continue and merge later."
source = "PostgreSQL documentation, 26.3 Failover (STONITH) and pg_control_system; Redis replication, master_replid"
[text.why_text]
split = "A failover promoted one while the other still runs. Each accepts changes that the other never gets; what is written to the wrong one is lost when it is rebuilt."
copy = "Both have run as primaries for as long as weir knows. They were copied from each other, so a replica or backup may attach to the wrong one."
[text.term_text]
same = ", both at term {term}"
other = ", at terms {terms}"
unknown = ""
---*/
with newest as (
  select *, row_number() over (partition by server_address order by ts desc) as place
  from db_member
  where is_self and cluster <> '' and ts > $now - interval '15 seconds' and ts <= $now
),
writable as (
  select cluster, max(system) as system, max(host) as host, count(distinct server_address) as primaries, string_agg(distinct server_address, ', ' order by server_address) as members,
    min(term) as term, max(term) as last_term, string_agg(distinct cast(term as varchar), ' and ') as terms
  from newest
  where place = 1 and role = 'primary' and coalesce(is_read_only, false) = false
  group by cluster
  having count(distinct server_address) > 1
),
past as (
  select cluster, count(distinct server_address) as were_replicas
  from db_member
  where is_self and role <> 'primary' and cluster <> '' and ts > $now - interval '24 hours' and ts <= $now
    and server_address in (select server_address from newest where place = 1 and role = 'primary')
  group by cluster
)
select w.host, w.cluster, w.system, w.primaries, w.members, w.term, w.terms,
  case when w.term is null then 'unknown' when w.term = w.last_term then 'same' else 'other' end as term_text,
  case when p.were_replicas > 0 then 'split' else 'copy' end as why_text,
  case when p.were_replicas > 0 then 'page' else 'note' end as class
from writable w
left join past p on p.cluster = w.cluster
