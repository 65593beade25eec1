/*---
id = "mysql.replica_broken"
title = "MySQL/MariaDB replication stopped"
tier = "db"
class = "page"
for = "1s"
every = "5s"
clear = "30s"
key = ["database_address", "peer"]
needs = ["db_replica"]
when = "select 1 from db_replica where system = 'mysql' and is_running = false and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = ["db.server_log", "mysql.replica_lag"]
subject = "replica {server_address}"
summary = "replica {server_address} does not replicate from {peer}: receiver {receiving}, applier {applying}{error_text}"
why = "It answers reads with the data it had when it stopped. Seconds_Behind_Source is NULL then, which many alerts treat as healthy."
look_at = "`SHOW REPLICA STATUS\\G` (older: SHOW SLAVE STATUS): Last_IO_Error concerns the connection to the source and its binary log, Last_SQL_Error a change that conflicts with the replica's data. Was it stopped by hand?"
silent_when = "Both threads run. Only servers of `[[databases]]` are probed, with the privilege REPLICATION CLIENT (MariaDB 10.5 and later: SLAVE MONITOR). A replica stopped for a backup looks the same."
fix = "{fix_text} Check: both threads report Yes, and the heartbeat's age falls. Skipping a change (`sql_replica_skip_counter`) makes the replica diverge for good: compare the tables before you trust it again."
source = "fault lab F24 (SQL thread stopped: NULL; network cut: Connecting after slave_net_timeout, 60 s); MySQL reference manual, SHOW REPLICA STATUS"
[text.fix_text]
cannot_connect = "It cannot connect to {peer}: check the network, the user and its password; it resumes once it can connect."
stopped = "It was stopped by hand: `START REPLICA;` (older: `START SLAVE;`)."
receiving = "Receiving has failed: if the source has purged the log it needs, rebuild the replica from a backup; else fix what the error names and `START REPLICA;`."
paused = "Applying was stopped by hand: `START REPLICA SQL_THREAD;` (older: `START SLAVE SQL_THREAD;`)."
applying = "Applying has failed: make the row or table that the error names equal to the source, then `START REPLICA SQL_THREAD;`."
---*/
with looks as (
  select *, row_number() over (partition by host, server_address, peer order by ts desc) as place,
    split_part(state, '/', 1) as receiving, split_part(state, '/', 2) as applying
  from db_replica
  where system = 'mysql' and role = 'source' and ts > $now - interval '15 seconds' and ts <= $now
)
select host, server_address, server_address as database_address, peer, receiving, applying, error,
  case when error is null then '' else concat('; ', error) end as error_text,
  case
    when receiving = 'Connecting' then 'cannot_connect'
    when receiving <> 'Yes' and error is null then 'stopped'
    when receiving <> 'Yes' then 'receiving'
    when error is null then 'paused'
    else 'applying'
  end as fix_text
from looks
where place = 1 and is_running = false
