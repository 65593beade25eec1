/*---
id = "db.idle_transaction"
title = "A session is idle in an open transaction"
tier = "db"
class = "note"
for = "5s"
every = "10s"
clear = "30s"
key = ["database_address"]
needs = ["db_server"]
when = "select 1 from db_server where idle_transaction_seconds >= 60 and ts > $now - interval '20 seconds' and ts <= $now limit 1"
subject = "{system} at {server_address}"
summary = "{system} at {server_address}: {idle_transaction} has sent nothing for {idle_transaction_seconds:duration} and keeps its transaction open"
why = "Its locks stay, and no row version that it could still see is removed: tables and undo logs grow, and the next schema change waits for it and blocks everyone behind. Usually a program took an error path without a rollback, or calls another service inside the transaction."
look_at = "PostgreSQL: `select pid, client_addr, application_name, xact_start, left(query, 80) from pg_stat_activity where state like 'idle in transaction%'`; MySQL: `select * from information_schema.innodb_trx order by trx_started limit 3`. The statement shown is its last one, and shows which code forgot to end it."
silent_when = "Idle for less than 60 s. It is a note until an hour has passed: alone it harms slowly, and when others wait for it, pg.lock_pileup or mysql.lock_pileup names it. People in an interactive client do the same."
fix = "`select pg_terminate_backend(PID);` or `kill PROCESS` ends it; its changes are rolled back. For good: `alter role app set idle_in_transaction_session_timeout = '60s'` (PostgreSQL), `set global idle_transaction_timeout = 60` (MariaDB), and a rollback on every error path. Check: idle_transaction_seconds of db_server is NULL or small."
source = "PostgreSQL idle_in_transaction_session_timeout; MariaDB idle_transaction_timeout"
---*/
with looks as (
  select *, row_number() over (partition by host, server_address order by ts desc) as place
  from db_server
  where ts > $now - interval '20 seconds' and ts <= $now and error is null
)
select host, server_address, server_address as database_address, system, idle_transaction, idle_transaction_seconds,
  case when idle_transaction_seconds >= 3600 then 'mail' else 'note' end as class
from looks
where place = 1 and idle_transaction_seconds >= 60
