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
explains = ["mysql.replica_lag"]
subject = "replica {server_address}"
summary = "replica {server_address} does not replicate from {peer}: receiver {receiving}, applier {applying}{error_text}{since_text}"
why = "It answers reads with the data it had when it stopped. Seconds_Behind_Source is NULL then, which many alerts treat as healthy."
look_at = "`SHOW REPLICA STATUS\\G` (older: SHOW SLAVE STATUS): Last_IO_Error concerns the connection to the source and its binary log, Last_SQL_Error a change that conflicts with the replica's data. Was it stopped by hand?"
silent_when = "Both threads run. Only servers of `[[databases]]` are probed, with the privilege REPLICATION CLIENT (MariaDB 10.5 and later: SLAVE MONITOR). A thread that was stopped without an error is what a backup does (`mysqldump --dump-replica`, xtrabackup with `--safe-slave-backup`): a note for 15 minutes, then a mail, a page after an hour. An error, or no connection to the source, is a page at once."
fix = "{fix_text} Check: both threads report Yes, and the heartbeat's age falls. Skipping a change (`sql_replica_skip_counter`) makes the replica diverge for good: compare the tables before you trust it again."
source = "fault lab F24 (SQL thread stopped: NULL; network cut: Connecting after slave_net_timeout, 60 s); MySQL reference manual, SHOW REPLICA STATUS; github.com/monitoring-plugins/monitoring-plugins #1718"
[text.since_text]
known = ", for {stopped_seconds:duration}"
unknown = ""
[text.fix_text]
cannot_connect = "It cannot connect to {peer}: check the network, the user and its password; it resumes once it can connect."
stopped = "It was stopped by hand: `START REPLICA;` (older: `START SLAVE;`)."
receiving = "Receiving has failed: if the source has purged the log it needs, rebuild the replica from a backup; else fix what the error names and `START REPLICA;`."
paused = "Applying was stopped by hand: `START REPLICA SQL_THREAD;` (older: `START SLAVE SQL_THREAD;`)."
applying = "Applying has failed: make the row or table that the error names equal to the source, then `START REPLICA SQL_THREAD;`."
---*/
with seen as (
  select host, server_address, peer, max(case when is_running then ts end) as running_ts, min(ts) as first_ts
  from db_replica
  where system = 'mysql' and role = 'source' and ts > $now - interval '65 minutes' and ts <= $now
  group by host, server_address, peer
),
looks as (
  select *, row_number() over (partition by host, server_address, peer order by ts desc) as place,
    split_part(state, '/', 1) as receiving, split_part(state, '/', 2) as applying
  from db_replica
  where system = 'mysql' and role = 'source' and ts > $now - interval '15 seconds' and ts <= $now
),
stopped as (
  select l.*, date_part('epoch', $now) - date_part('epoch', coalesce(s.running_ts, s.first_ts)) as stopped_seconds,
    l.error is null and l.receiving <> 'Connecting' as is_on_purpose
  from looks l
  join seen s on s.host = l.host and s.server_address = l.server_address and s.peer = l.peer
  where l.place = 1 and l.is_running = false
)
select host, server_address, server_address as database_address, peer, receiving, applying, error, stopped_seconds,
  case when error is null then '' else concat('; ', error) end as error_text,
  case when stopped_seconds >= 60 then 'known' else 'unknown' end as since_text,
  case
    when receiving = 'Connecting' then 'cannot_connect'
    when receiving <> 'Yes' and error is null then 'stopped'
    when receiving <> 'Yes' then 'receiving'
    when error is null then 'paused'
    else 'applying'
  end as fix_text,
  case when is_on_purpose and stopped_seconds < 900 then 'note' when is_on_purpose and stopped_seconds < 3600 then 'mail' else 'page' end as class
from stopped
