/*---
id = "pg.slot_retains_wal"
title = "Inactive replication slot retains WAL"
tier = "db"
class = "mail"
for = "0s"
every = "5s"
clear = "90s"
key = ["database_address", "peer"]
needs = ["db_replica", "db_server", "filesystem"]
when = "select 1 from db_replica where role = 'slot' and is_running = false and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "slot {peer} of {server_address}"
summary = "slot {peer} of {server_address} has no consumer and retains {retained_bytes:bytes} of WAL{disk_text}; state {state}{growth_text}"
why = "A slot retains WAL until its consumer has read it. If the consumer is gone for good, WAL grows until the disk is full and the primary stops. pg_stat_replication simply has no row for such a consumer, so nothing there looks wrong."
look_at = "`select slot_name, slot_type, database, active, restart_lsn, wal_status from pg_replication_slots`: whose is it? A removed replica, a stopped subscription or change-capture program, an aborted backup."
silent_when = "The slot was active within the last 10 s, or retains less than 8 MiB. It is only a note while it retains less than 256 MiB and less than 20 % of the free space on the data's file system (if weir watches that host), and within half a minute after its last use: a restarting replica is back by then. The bounds are opinions."
fix = "If the consumer will come back: start it, it resumes. If not: `select pg_drop_replication_slot('{peer}');` on {server_address}, and the next checkpoint frees the space. So that a lost consumer cannot fill the disk again: `alter system set max_slot_wal_keep_size = '20GB'; select pg_reload_conf();` (the slot is then invalidated instead, and its replica must be rebuilt). Check: retained_bytes falls, or the slot has no row any more. Never delete files in pg_wal by hand."
source = "fault lab F22 (11.5 MB kept, no row in pg_stat_replication); PostgreSQL documentation §26.2.6, §52.20"
[chart]
title = "WAL retained by the slot"
unit = "B"
sql = """
select ts, retained_bytes from db_replica
where host = {host} and server_address = {server_address} and peer = {peer} and role = 'slot' and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with slots as (
  select host, server_address, peer, state, is_running, retained_bytes, ts,
    row_number() over (partition by host, server_address, peer order by ts desc) as place,
    date_part('epoch', $now) - date_part('epoch', coalesce(
      max(ts) filter (where is_running) over (partition by host, server_address, peer),
      min(ts) over (partition by host, server_address, peer))) as idle_seconds,
    first_value(retained_bytes) over (partition by host, server_address, peer order by ts) as first_bytes,
    date_part('epoch', ts) - date_part('epoch', first_value(ts) over (partition by host, server_address, peer order by ts)) as seconds
  from db_replica
  where role = 'slot' and system = 'postgresql' and ts > $now - interval '10 minutes' and ts <= $now
),
homes as (
  select host, server_address, max(data_directory) as data_directory
  from db_server
  where system = 'postgresql' and ts > $now - interval '60 seconds' and ts <= $now
    and (server_address like '/%' or server_address like '127.%' or server_address like 'localhost%')
  group by host, server_address
),
disks as (
  select h.host, h.server_address, f.mount_point, f.available_bytes,
    row_number() over (partition by h.host, h.server_address order by length(f.mount_point) desc, f.ts desc) as place
  from homes h
  join filesystem f on f.host = h.host
  where f.ts > $now - interval '3 minutes' and f.ts <= $now
    and (f.mount_point = '/' or h.data_directory = f.mount_point or starts_with(h.data_directory, concat(f.mount_point, '/')))
),
joined as (
  select s.host, s.server_address, s.peer, s.state, s.retained_bytes, s.idle_seconds, d.mount_point, d.available_bytes,
    s.idle_seconds >= 30 and (s.retained_bytes >= 268435456
      or s.retained_bytes > 0.2 * (d.available_bytes + s.retained_bytes)) as is_much,
    case when s.seconds > 60 then (s.retained_bytes - s.first_bytes) / s.seconds end as growth
  from slots s
  left join disks d on d.host = s.host and d.server_address = s.server_address and d.place = 1
  where s.place = 1 and s.is_running = false and s.ts > $now - interval '60 seconds'
)
select host, server_address, server_address as database_address, peer, retained_bytes, mount_point, available_bytes,
  case when state = '' then 'unknown' else state end as state,
  case when available_bytes is null then '' else concat(', ', cast(retained_bytes * 100 / greatest(available_bytes + retained_bytes, 1) as bigint), ' % of the potential free space on ', mount_point) end as disk_text,
  case when growth > 0 and available_bytes is not null then concat('; at this rate the disk is full in ', cast(round(available_bytes / growth / 3600) as bigint), ' hours') else '' end as growth_text,
  case when state in ('unreserved', 'lost') or (is_much and growth > 0 and available_bytes / growth < 14400) then 'page'
    when is_much then 'mail' else 'note' end as class
from joined
where state in ('unreserved', 'lost') or (idle_seconds >= 10 and retained_bytes >= 8388608)
