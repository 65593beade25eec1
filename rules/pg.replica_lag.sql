/*---
id = "pg.replica_lag"
title = "PostgreSQL replica lag"
tier = "db"
class = "mail"
for = "1s"
every = "5s"
clear = "30s"
key = ["database_address", "peer"]
needs = ["db_replica"]
when = "select 1 from db_replica where system = 'postgresql' and role in ('replica', 'source') and (is_running = false or is_paused or unsent_bytes >= 67108864 or unapplied_bytes >= 67108864 or lag_seconds > 30 or heartbeat_seconds > 30) and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = ["db.replica_behind"]
subject = "{link}"
summary = "{link}: {behind_bytes:bytes} behind{lag_text}; {where_text}"
why = "Reads from this replica are stale. If the primary is lost now, the missing part is lost with it or must be applied before work can resume."
look_at = "Where it lags: bytes not yet stored by the replica (unsent_bytes) point to the network between them or its disk; bytes stored but not applied (unapplied_bytes) point to replay: `select pg_is_wal_replay_paused()`, a long query there that blocks replay (`select * from pg_stat_activity where state <> 'idle' order by xact_start`), one busy CPU (replay is a single process), its disk."
silent_when = "Less than 64 MiB and less than 30 s behind (defaults); a primary without writes: the age of its last transaction grows although all is applied, so age counts only while bytes are missing; the first seconds of a new replica. Only servers of `[[databases]]` are probed. A deliberately delayed replica (`recovery_min_apply_delay`) looks the same: copy this rule without it."
fix = "{fix_text} Check: unsent_bytes and unapplied_bytes of db_replica fall. Until then send reads that must be fresh to the primary. Do not restart the replica: it resumes with the same log at the same position."
source = "fault lab F22 (replay paused: 7.7 MB, 3.41 s; flush difference 0); PostgreSQL documentation §28.2.4 pg_stat_replication"
[text.link]
of_source = "replica {peer} of {server_address}"
own = "replica {server_address}"
[text.where_text]
paused = "replay is paused by hand"
not_connected = "it is not connected to its primary"
replay = "WAL received, replay too slow"
network = "WAL not yet received and stored"
heartbeat = "its newest heartbeat row is old, and it has applied all it received"
[text.fix_text]
paused = "On the replica: `select pg_wal_replay_resume();`."
not_connected = "Check the replica's log for \"could not connect to the primary\", and the network between them; is the user in the primary's pg_hba.conf, and is its WAL still retained (pg.slot_retains_wal)?"
replay = "On the replica: end the query that blocks replay (`select pg_terminate_backend(PID)`), set `max_standby_streaming_delay = 30s`, and give it a disk as fast as the primary's."
network = "Between them: check for packet loss and a saturated link (wire.loss, wire.bandwidth_cap), on the replica for a slow disk (disk.slow); `wal_compression = on` on the primary reduces the volume."
heartbeat = "Does the primary still write the heartbeat (a stopped cron job looks the same)? Else nothing arrives: check the network between them, and pg_stat_replication on the primary."
[text.lag_text]
unknown = ""
known = ", {lag_seconds:.0} s old"
[chart]
title = "Bytes behind"
unit = "B"
sql = """
select ts, unsent_bytes, unapplied_bytes from db_replica
where host = {host} and server_address = {server_address} and peer = {peer} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select * except (lag_seconds), coalesce(heartbeat_seconds, lag_seconds) as lag_seconds,
    row_number() over (partition by host, server_address, role, peer order by ts desc) as place,
    coalesce(unsent_bytes, 0) + coalesce(unapplied_bytes, 0) as behind_bytes,
    case when is_paused then 'paused' when role = 'source' and not is_running then 'not_connected'
      when coalesce(unapplied_bytes, 0) > coalesce(unsent_bytes, 0) then 'replay'
      when heartbeat_seconds > 30 and role = 'source' and coalesce(unapplied_bytes, 0) = 0 then 'heartbeat' else 'network' end as cause
  from db_replica
  where system = 'postgresql' and role in ('replica', 'source')
    and ts > $now - interval '15 seconds' and ts <= $now
)
select host, server_address, server_address as database_address, peer, state, behind_bytes, unsent_bytes, unapplied_bytes, lag_seconds, heartbeat_seconds, role,
  case when role = 'replica' then 'of_source' else 'own' end as link,
  cause as where_text, cause as fix_text,
  case when lag_seconds is null then 'unknown' else 'known' end as lag_text,
  case when lag_seconds > 300 or behind_bytes > 1073741824 then 'page' else 'mail' end as class
from looks
where place = 1
  and (behind_bytes >= 67108864
    or (lag_seconds > 30 and behind_bytes > 0)
    or heartbeat_seconds > 30
    or (is_paused and behind_bytes > 0)
    or (role = 'source' and is_running = false))
