/*---
id = "mysql.replica_lag"
title = "MySQL/MariaDB replica lag"
tier = "db"
class = "mail"
for = "5s"
every = "5s"
clear = "30s"
key = ["database_address", "peer"]
needs = ["db_replica"]
when = "select 1 from db_replica where system = 'mysql' and (heartbeat_seconds > $threshold or lag_seconds > $threshold or applier like 'Waiting for%lock') and ts > $now - interval '15 seconds' and ts <= $now limit 1"
subject = "replica {server_address}"
summary = "replica {server_address} is {behind_seconds:duration} behind {peer} {measure_text}{lock_text}"
why = "Reads from it are that old. A client that has just saved something does not find it."
look_at = "Is receiving or applying too slow? In SHOW REPLICA STATUS compare Read_…_Log_Pos with the source's `SHOW MASTER STATUS` (receiving), and Exec_…_Log_Pos with it (applying). By default one thread applies: one long transaction delays all behind it (`SHOW PROCESSLIST`). Waiting for a lock: a session on the replica holds it, such as a backup (FLUSH TABLES WITH READ LOCK), a LOCK TABLES or an open transaction; it is the oldest of `SHOW PROCESSLIST`, or in MySQL `select * from performance_schema.metadata_locks`. Its disk: disk.slow."
silent_when = "Lag up to the threshold (30 s is a default: `weir thresholds mysql.replica_lag` gives the value for this fleet). An applier that waits for a lock is reported from 2 s, as a note. With `heartbeat` in `[[databases]]` only the heartbeat counts, since Seconds_Behind_Source is 0 during a network outage and ignores lag of the source itself; without it that number must do, and a network outage is seen only when the replica notices it (slave_net_timeout, 60 s)."
fix = "Waiting for a lock: end the session that holds it (`KILL id`), and take backups with `mariadb-backup` or `mysqldump --single-transaction`, which hold no long locks. Applying too slowly: `STOP REPLICA SQL_THREAD; SET GLOBAL replica_parallel_workers = 4; START REPLICA SQL_THREAD;` (MariaDB: slave_parallel_threads = 4, slave_parallel_mode = optimistic); split large updates into batches of some thousand rows. Not receiving: `STOP REPLICA IO_THREAD; START REPLICA IO_THREAD;` reconnects, and `CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 5` lets it notice a dead connection. Check: behind_seconds falls. Until then send fresh reads to {peer}."
source = "fault lab F24 (heartbeat 2.24 and 10.35 s while Seconds_Behind_Master said 0); field notes B"
[chart]
title = "Lag behind the source"
unit = "s"
sql = """
select ts, heartbeat_seconds, lag_seconds from db_replica
where host = {host} and server_address = {server_address} and peer = {peer} and ts > $now - interval '1 hour' and ts <= $now order by ts"""
[threshold]
value = 30
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', ts) as ts, host, concat(server_address, ' ', peer) as subject, max(coalesce(heartbeat_seconds, lag_seconds)) as value
from db_replica
where ts >= $from and ts < $to and system = 'mysql' and role = 'source' and coalesce(heartbeat_seconds, lag_seconds) is not null
group by 1, 2, 3"""
---*/
with looks as (
  select *, row_number() over (partition by host, server_address, peer order by ts desc) as place,
    coalesce(heartbeat_seconds, lag_seconds) as behind_seconds,
    coalesce(applier like 'Waiting for%lock', false) as is_locked
  from db_replica
  where system = 'mysql' and role = 'source' and ts > $now - interval '15 seconds' and ts <= $now
)
select host, server_address, server_address as database_address, peer, state, behind_seconds, heartbeat_seconds, lag_seconds,
  case when heartbeat_seconds is null then 'by its own report'
    when coalesce(lag_seconds, 0) < 10 then concat('by the heartbeat (its own report: ', coalesce(concat(cast(round(lag_seconds) as bigint), ' s'), 'none'), ')')
    else 'by the heartbeat' end as measure_text,
  case when is_locked then concat(': applier state `', applier, '`') else '' end as lock_text,
  case when behind_seconds > 300 then 'page' when behind_seconds > $threshold then 'mail' else 'note' end as class
from looks
where place = 1 and (behind_seconds > $threshold or (is_locked and behind_seconds > 2))
