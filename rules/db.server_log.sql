/*---
id = "db.server_log"
title = "Database's own log reports a failure"
tier = "db"
class = "mail"
for = "0s"
every = "5s"
clear = "2m"
key = ["database_program", "database_problem"]
prefers = ["disk.full", "disk.inodes_full", "disk.readonly", "disk.io_error", "mem.oom_kill"]
needs = ["log"]
when = """
select 1 from log where coalesce(program, '') in ('', 'other', 'postgresql', 'postgres') and (body like '%deadlock detected%' or body like '%No space left on device%' or body like '%checkpoints are occurring too frequently%' or body like '%database is not accepting commands%' or body like '%database "%must be vacuumed within%' or body like '%invalid page in block%' or body like '%could not read block%' or body like '%out of memory%' or body like '%archive command failed%' or body like '%terminating connection because of crash of another server process%' or body like '%all server processes terminated; reinitializing%' or body like '%sorry, too many clients already%' or body like '%remaining connection slots are reserved%' or body like '%the database system is %' or body like '%could not bind %' or body like '%could not create any TCP/IP sockets%' or body like '%data directory %' or body like '%database files are incompatible with server%' or body like '%could not locate a valid checkpoint record%' or body like '%could not map anonymous shared memory%' or body like '%could not fork new process for connection%') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where coalesce(program, '') in ('', 'other', 'mysqld', 'mariadbd', 'mariadb') and (body like '%is full%' or body like '%error number 28 %' or body like '%Disk is full writing%' or body like '%Out of memory%' or body like '%Long semaphore wait%' or body like '%semaphore wait has lasted%' or body like '%page corruption%' or body like '%is marked as crashed%' or body like '%Too many connections%' or body like '%Slave SQL%' or body like '%Slave I/O%' or body like '%Replica SQL%' or body like '%Replica I/O%' or body like '%ransactions deadlock detected%' or body like '%annot allocate memory for the buffer pool%' or body like '%Unable to lock %ibdata1%' or body like '%Can''t start server: %' or body like '%Data Dictionary initialization failed%' or body like '%Plugin ''InnoDB'' init function returned error%' or body like '%Can''t open and lock privilege tables%') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where coalesce(program, '') in ('', 'other', 'redis', 'redis-server', 'valkey-server') and (body like '%fork: Cannot allocate memory%' or body like '%Background saving error%' or body like '%Error writing to the AOF file%' or body like '%Write error saving DB on disk%' or body like '%Short write while writing to the AOF file%' or body like '%MISCONF%' or body like '%ould not create server TCP listening socket%' or body like '%Bad file format reading the append only file%' or body like '%Short read or OOM loading DB%' or body like '%Fatal error%loading the DB%') and ts > $now - interval '2 minutes' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.service_rejects",
  "app.service_unreachable", "app.slow", "db.not_answering", "proxy.bad_gateway",
]
subject = "{program} on {host}"
summary = "{program} on {host}: {what_text}, {lines} times in 2 minutes; it logs \"{line}\""
why = "{why_text}"
look_at = "`select ts, body from log where host = '{host}' and program = '{program}' and ts > now() - interval '10 minutes' order by ts`; PostgreSQL's DETAIL and STATEMENT follow the line."
silent_when = "No such line of PostgreSQL, MySQL, MariaDB, Redis or Valkey within 2 minutes; fewer than 5 deadlocks, fewer than 3 refused sessions or all within 5 s (a restart), and fewer than 3 lines of frequent checkpoints (deadlocks and checkpoints are notes: applications repeat a deadlocked transaction, bulk loads cause checkpoints). Only the start of the server's message counts, which a client's statement cannot choose. Without the program's name (a container's output) only a line with its usual prefix counts."
fix = "{fix_text} Check: the line does not come back."
source = "PostgreSQL deadlock.c, md.c, checkpointer.c, varsup.c, bufmgr.c, pgarch.c; postmaster.c; MySQL and MariaDB errmsg-utf8.txt (1021, 1114), rpl_replica.cc, InnoDB srv0srv.cc; Redis rdb.c, aof.c, server.c"
[text.what_text]
space = "it cannot write, its disk is full"
deadlocks = "deadlocks"
checkpoints = "checkpoints come too often"
wraparound = "transaction ids are running out"
corruption = "a data page is broken or cannot be read"
memory = "out of memory"
archive = "archiving of its log fails"
crash = "a server process crashed, all sessions were ended"
semaphore = "threads wait for InnoDB's internal locks for minutes"
save = "it cannot save its data to disk"
connections = "connections are refused, the limit is reached"
recovery = "it accepts no session, it is starting, recovering or shutting down"
replica = "replication stopped at an error"
start = "it cannot start"
[text.why_text]
space = "Every statement that writes fails. PostgreSQL stops as a whole if the directory of its WAL is full."
deadlocks = "Transactions lock the same rows in different order. The server ends one of each pair; an application that does not repeat it shows an error."
checkpoints = "Each checkpoint writes all changed pages, and afterwards each page's first change is logged in full: many times the I/O that the changes need."
wraparound = "Old transaction ids must be removed by vacuum before the counter wraps. At the limit the database accepts no writes."
corruption = "The storage returned something else than was written, or nothing. Data of this page is lost on this server."
memory = "The server got no memory for a statement or a thread; the kernel may end it next."
archive = "Log that is not archived cannot be used for a restore, and PostgreSQL keeps it until its disk is full."
crash = "One process ended by a signal. The others stop at once, since shared memory may be damaged, and the server recovers before it accepts connections."
semaphore = "A thread holds a latch and is stuck, usually on a disk that does not answer. After 600 s InnoDB ends the whole server."
save = "With the default `stop-writes-on-bgsave-error yes` Redis then refuses all writes with MISCONF; with an append-only file it waits."
connections = "New sessions fail in every application that uses this server."
recovery = "After a crash PostgreSQL first applies its log again, which takes minutes after much writing; a server that crashes repeatedly never gets beyond that."
replica = "The replica applies nothing more, so what it answers grows old. With `Duplicate entry` or a row that is missing its data differs from the primary's: something wrote to it."
start = "The server ends before it accepts a connection, so everything that uses it fails until it is started well. If another server runs already at this port or directory, that one serves, and only the second start fails."
[text.fix_text]
space = "Free or add space on the server's disk; never delete files below its directory. PostgreSQL: look for a replication slot that keeps WAL (pg.slot_retains_wal) and a failing archive_command."
deadlocks = "Lock rows in one order everywhere (sorted ids), keep transactions short, and repeat a transaction that gets 40P01 or 1213."
checkpoints = "`alter system set max_wal_size = '8GB'; select pg_reload_conf();` if the disk has that space."
wraparound = "Find what holds it back: the oldest of pg_stat_activity.backend_xmin, prepared transactions, replication slots; end it, then `vacuum (freeze, verbose)` on the oldest tables."
corruption = "Stop using this copy: fail over to a replica, check the disk (`smartctl -a`, disk.io_error), restore from a backup. Do not set `zero_damaged_pages` before a copy of the files exists."
memory = "Lower what each session may use (`work_mem`, `sort_buffer_size`) or the number of sessions; see mem.oom_kill."
archive = "Run archive_command by hand as its user: its error names the reason (target full, key expired)."
crash = "The line before names process and signal: 9 is the kernel's out-of-memory killer (mem.oom_kill), 11 a bug, often in an extension."
semaphore = "Look at the disk first (disk.stuck, disk.slow), then `SHOW ENGINE INNODB STATUS`."
save = "`vm.overcommit_memory = 1` (a fork needs no second copy), or space and permission in `dir`. Then `BGSAVE`, and look at rdb_last_bgsave_status."
recovery = "Watch for `redo done` and `ready to accept connections`; do not restart it again. If it ends again, the lines before name the reason: its disk is full, memory, a broken page."
replica = "`SHOW REPLICA STATUS` (older: `SHOW SLAVE STATUS`) has the statement. Compare the row with the primary's, repair it, then `START REPLICA`; if more differs, build the replica again. Make it `super_read_only`. Skip no event before you know what it did."
start = "The line names it: another process at the port (`ss -ltnp`), owner and rights of the data directory, memory for its buffers (lower `innodb_buffer_pool_size` or `shared_buffers`), files of another version, or a damaged file: then restore a copy and keep the directory as it is. Do not delete files to make it start."
connections = "Shrink the applications' pools or put a pooler between; see db.connections_exhausted."
---*/
with forms as (
  -- The message behind the prefix that the server, its container or syslog puts before it. Without the program's name
  -- only what no other program writes: a time and a bracket, or PANIC.
  select host, ts, severity, coalesce(program, '') as program, body,
    regexp_match(body, '^(?:\[[0-9]+-[0-9]+\] )?(?:[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+ [A-Z]{2,5} .{0,200}?)?(?:LOG|WARNING|ERROR|FATAL|PANIC):  (.*)$')[1] as of_postgresql,
    regexp_like(body, '^PANIC:  |^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+ [A-Z]{2,5} .{0,60}?\[.{0,200}?(?:LOG|WARNING|ERROR|FATAL|PANIC):  ') as is_postgresql,
    regexp_match(body, '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][ 0-9:.]+Z? [0-9]+ \[(?:ERROR|Error|Warning|Note|System)\] (?:\[MY-[0-9]+\] \[[A-Za-z_]+\] )?(.*)$')[1] as of_mysqld,
    regexp_match(body, '^[0-9]+:[XCSM] [0-9]{2} [A-Z][a-z]{2} (?:[0-9]{4} )?[0-9:.]+ [#*.-] (.*)$')[1] as of_redis
  from log
  where ts > $now - interval '2 minutes' and ts <= $now
    and coalesce(program, '') in ('', 'other', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'redis', 'redis-server', 'valkey-server')
    and (severity is null or severity not in ('debug', 'trace'))
),
spoken as (
  select host, ts, severity,
    case when program in ('postgresql', 'postgres') then 'postgresql' when program in ('mysqld', 'mariadbd', 'mariadb') then 'mysqld'
      when program in ('redis', 'redis-server', 'valkey-server') then 'redis'
      when is_postgresql then 'postgresql' when of_mysqld is not null then 'mysqld' when of_redis is not null then 'redis'
    end as program,
    coalesce(of_postgresql, of_mysqld, of_redis, body) as body
  from forms
),
named as (
  select host, ts, program, body,
    case
      when program = 'postgresql' and (regexp_like(body, '^could not (extend|write|create|fsync|open)[^:]*: No space left on device') or regexp_like(body, '^could not write to (file|temporary file) .*: No space left on device$')) then 'space'
      when program = 'postgresql' and body = 'deadlock detected' then 'deadlocks'
      when program = 'postgresql' and regexp_like(body, '^checkpoints are occurring too frequently [(]') then 'checkpoints'
      when program = 'postgresql' and (regexp_like(body, '^database is not accepting commands (to avoid|that assign)') or regexp_like(body, '^database "[^"]+" must be vacuumed within [0-9]+ transactions$')) then 'wraparound'
      when program = 'postgresql' and (regexp_like(body, '^invalid page in block [0-9]+ of relation ') or regexp_like(body, '^could not read blocks? [0-9.]+ in file "[^"]+": ')) then 'corruption'
      when program = 'postgresql' and body = 'out of memory' then 'memory'
      when program = 'postgresql' and regexp_like(body, '^archive command failed with exit code ') then 'archive'
      when program = 'postgresql' and regexp_like(body, '^(terminating connection because of crash of another server process|all server processes terminated; reinitializing)$') then 'crash'
      when program = 'postgresql' and regexp_like(body, '^(sorry, too many clients already|remaining connection slots are reserved )') then 'connections'
      when program = 'postgresql' and regexp_like(body, '^could not fork new process for connection: ') then 'memory'
      when program = 'postgresql' and regexp_like(body, '^the database system is (in recovery mode|starting up|shutting down|not yet accepting connections|not accepting connections)$') then 'recovery'
      when program = 'mysqld' and regexp_like(body, '^(\[Repl\] )?(Slave|Replica) (SQL|I/O)( for channel ''[^'']*'')?: ') and severity in ('error', 'critical') then 'replica'
      when program = 'postgresql' and regexp_like(body, '^(could not bind (IPv4|IPv6|Unix) address |could not create any TCP/IP sockets$|data directory "[^"]+" has (wrong ownership|invalid permissions|group or world access)$|database files are incompatible with server$|could not locate a valid checkpoint record|could not map anonymous shared memory: )') then 'start'
      when program = 'mysqld' and (regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?(The table ''[^'']*'' is full|Disk is full writing ''|Disk full [(])') or regexp_like(body, '^(InnoDB: )?Operating system error number 28 in a file operation')) then 'space'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?Transactions deadlock detected, dumping detailed information') then 'deadlocks'
      when program = 'mysqld' and regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?Out of memory') then 'memory'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?(\#\#\# InnoDB: )?(Warning: a long semaphore wait|A long semaphore wait|Semaphore wait has lasted > [0-9]+ seconds)') then 'semaphore'
      when program = 'mysqld' and (regexp_like(body, '^(InnoDB: )?Database page corruption on disk or a failed') or regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?Table ''[^'']*'' is marked as crashed')) then 'corruption'
      when program = 'mysqld' and regexp_like(body, '^Too many connections$') then 'connections'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: |Fatal error: )?(Cannot allocate memory for the buffer pool|Unable to lock [./]*ibdata1|Can''t start server: |Data Dictionary initialization failed|Plugin ''InnoDB'' init function returned error|Can''t open and lock privilege tables)') then 'start'
      when program = 'redis' and regexp_like(body, '^(Warning: )?(Could not create server TCP listening socket |Bad file format reading the append only file|Short read or OOM loading DB|Fatal error loading the DB)') then 'start'
      when program = 'redis' and regexp_like(body, '^(Can''t save in background: fork: |Can''t rewrite append only file in background: fork: |Background saving error|Write error saving DB on disk: |Error writing to the AOF file: |Short write while writing to the AOF file)') then 'save'
    end as what
  from spoken
  where program is not null
)
select host, program, program as database_program, what, what as database_problem, what as what_text, what as why_text, what as fix_text, count(*) as lines, max(substr(body, 1, 140)) as line,
  case when what in ('deadlocks', 'checkpoints', 'archive', 'wraparound', 'semaphore', 'save', 'replica') then 'app.errors, app.errors_quiet, app.service_rejects, app.slow, proxy.bad_gateway' end as explains,
  case when what <> 'replica' then 'mysql.replica_broken' end as not_explained_by,
  case when what in ('space', 'wraparound', 'corruption', 'crash', 'semaphore', 'save') then 'page' when what in ('deadlocks', 'checkpoints') then 'note' else 'mail' end as class
from named
where what is not null
group by host, program, what
having count(*) >= case when what = 'deadlocks' then 5 when what in ('checkpoints', 'recovery') then 3 else 1 end
  and (what <> 'recovery' or date_part('epoch', max(ts)) - date_part('epoch', min(ts)) >= 5)
