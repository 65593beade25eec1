/*---
id = "db.replica_writable"
title = "Replica accepts writes"
tier = "db"
class = "mail"
for = "10s"
every = "30s"
clear = "2m"
key = ["database_address"]
needs = ["db_member"]
when = "select 1 from db_member where is_self and role in ('replica', 'relay') and is_read_only = false and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "replica {server_address}"
summary = "{system} replica {server_address} of {source_text} accepts writes of clients"
why = "A client that is connected to it by mistake changes data that its primary does not have. Replication continues, or stops at the first conflicting change; after a failover, which of the two versions remains is chance."
look_at = "Who writes there: the grants, the pool's configuration, and transactions that only the replica has (MySQL: `gtid_executed` of both)."
silent_when = "It is read-only. PostgreSQL's standbys are always. Two servers that replicate from each other (multi-primary on purpose) are left out, as far as both are in `[[databases]]`; a replica that is writable on purpose, such as one for temporary tables of reports, looks the same: judge the finding as not actionable. Accounts with SUPER (MySQL: use super_read_only) or of the administrator can write anyway."
fix = "{fix_text} Before that, compare the tables (pt-table-checksum) if clients did write. Check: is_read_only is true in db_member."
source = "MySQL reference manual, super_read_only; MariaDB read_only; Redis replica-read-only"
[text.source_text]
known = "{source_member}"
unknown = "an unknown source"
[text.fix_text]
mysql = "`SET GLOBAL super_read_only = ON;` (MariaDB: `SET GLOBAL read_only = ON;`) and `read_only = ON` in its configuration file."
redis = "`CONFIG SET replica-read-only yes` and the same in redis.conf."
other = "Make it read-only in its configuration."
---*/
with newest as (
  select *, row_number() over (partition by host, server_address order by ts desc) as place
  from db_member
  where is_self and ts > $now - interval '30 seconds' and ts <= $now
)
select w.host, w.server_address, w.server_address as database_address, w.system, w.source_member, w.role,
  case when w.source_member is null then 'unknown' else 'known' end as source_text,
  case when w.system = 'mysql' then 'mysql' when w.system = 'redis' then 'redis' else 'other' end as fix_text
from newest w
left join newest o on o.place = 1 and o.server_address = w.source_member and o.source_member = w.server_address
where w.place = 1 and w.role in ('replica', 'relay') and w.is_read_only = false and o.server_address is null
