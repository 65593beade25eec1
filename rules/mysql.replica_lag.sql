/*---
id = "mysql.replica_lag"
title = "A MySQL or MariaDB replica falls behind"
tier = "db"
class = "mail"
for = "5s"
every = "5s"
clear = "30s"
key = ["server_address", "peer"]
explained_by = ["mysql.replica_broken", "disk.stuck", "disk.slow", "wire.loss", "wire.syn_blackhole"]
needs = ["db_replica"]
when = "select 1 from db_replica where system = 'mysql' and (heartbeat_seconds > $threshold or lag_seconds > $threshold or applier like 'Waiting for%lock') and ts > $now - interval '15 seconds' and ts <= $now limit 1"
subject = "replica {server_address}"
summary = "replica {server_address} is {behind_seconds:duration} behind {peer} {measure_text}{lock_text}"
why = "What is read from it is that old. A visitor who has just saved something does not find it."
look_at = "Does it receive or apply too slowly? In SHOW REPLICA STATUS compare Read_…_Log_Pos with the source's `SHOW MASTER STATUS` (receiving), and Exec_…_Log_Pos with it (applying). Applying is one thread unless it is told otherwise: one long transaction holds up all behind it (`SHOW PROCESSLIST`). Waiting for a lock: somebody holds it on the replica itself, a backup (FLUSH TABLES WITH READ LOCK), a LOCK TABLES or a transaction left open; it is the oldest of `SHOW PROCESSLIST`, or in MySQL `select * from performance_schema.metadata_locks`. Its disk: disk.slow."
silent_when = "Not further behind than the threshold (30 s is a default: `weir thresholds mysql.replica_lag` says what it should be here). A replica whose applying waits for a lock is named as soon as it is 2 s behind, as a note. With `heartbeat` in `[[databases]]` only that counts, since Seconds_Behind_Source is 0 while the network is cut and says nothing of a source that is itself behind; without it, that number has to do, and a network that was cut is seen only when the replica notices (slave_net_timeout, 60 s)."
fix = "Waiting for a lock: end who holds it (`KILL id`), and take backups with `mariadb-backup` or `mysqldump --single-transaction`, which lock nothing for long. Applying too slowly: `STOP REPLICA SQL_THREAD; SET GLOBAL replica_parallel_workers = 4; START REPLICA SQL_THREAD;` (MariaDB: slave_parallel_threads = 4, slave_parallel_mode = optimistic); break large updates into portions of some thousand rows. Not receiving: `STOP REPLICA IO_THREAD; START REPLICA IO_THREAD;` connects anew, and `CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD = 5` lets it notice a dead line. Check: behind_seconds falls. Until then send fresh reads to {peer}."
source = "fault lab F24 (heartbeat 2.24 and 10.35 s while Seconds_Behind_Master said 0); field notes B"
[chart]
title = "Behind the source"
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
select host, server_address, peer, state, behind_seconds, heartbeat_seconds, lag_seconds,
  case when heartbeat_seconds is null then 'by its own account'
    when coalesce(lag_seconds, 0) < 10 then concat('by the heartbeat, while it says ', coalesce(concat(cast(round(lag_seconds) as bigint), ' s'), 'nothing'), ' itself')
    else 'by the heartbeat' end as measure_text,
  case when is_locked then concat(': its applying says `', applier, '`') else '' end as lock_text,
  case when behind_seconds > 300 then 'page' when behind_seconds > $threshold then 'mail' else 'note' end as class
from looks
where place = 1 and (behind_seconds > $threshold or (is_locked and behind_seconds > 2))
