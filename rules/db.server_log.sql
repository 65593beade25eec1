/*---
id = "db.server_log"
title = "Database's own log reports a failure"
tier = "db"
class = "mail"
for = "0s"
every = "5s"
clear = "2m"
key = ["database_program", "database_problem"]
equal = ["database_program"]
prefers = ["disk.full", "disk.inodes_full", "disk.readonly", "disk.io_error", "mem.oom_kill"]
needs = ["log"]
when = """
select 1 from log where coalesce(program, '') in ('', 'other', 'postgresql', 'postgres') and (body like '%deadlock detected%' or body like '%No space left on device%' or body like '%checkpoints are occurring too frequently%' or body like '%database is not accepting commands%' or body like '%database "%must be vacuumed within%' or body like '%invalid page in block%' or body like '%could not read block%' or body like '%out of memory%' or body like '%archive command failed%' or body like '%terminating connection because of crash of another server process%' or body like '%all server processes terminated; reinitializing%' or body like '%sorry, too many clients already%' or body like '%remaining connection slots are reserved%' or body like '%the database system is %' or body like '%could not bind %' or body like '%could not create any TCP/IP sockets%' or body like '%data directory %' or body like '%database files are incompatible with server%' or body like '%could not locate a valid checkpoint record%' or body like '%could not map anonymous shared memory%' or body like '%could not fork new process for connection%' or body like '%Read-only file system%' or body like '%Input/output error%' or body like '%I/O error%' or body like '%oo many open files%' or body like '% was terminated by signal %' or body like '%still waiting for %Lock %' or body like '%canceling statement due to %' or body like '%out of shared memory%' or body like '%Permission denied%' or body like '%contains errors%' or body like '%was not reloaded%' or body like '%could not load server certificate%' or body like '%requested WAL segment%' or body like '%could not connect to the primary%' or body like '%terminating walreceiver%' or body like '%terminating walsender%' or body like '%replication slot %' or body like '%MultiXactIds%') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where coalesce(program, '') in ('', 'other', 'mysqld', 'mariadbd', 'mariadb') and (body like '%is full%' or body like '%error number 28 %' or body like '%Disk is full writing%' or body like '%Out of memory%' or body like '%Long semaphore wait%' or body like '%semaphore wait has lasted%' or body like '%page corruption%' or body like '%is marked as crashed%' or body like '%Too many connections%' or body like '%Slave SQL%' or body like '%Slave I/O%' or body like '%Replica SQL%' or body like '%Replica I/O%' or body like '%ransactions deadlock detected%' or body like '%annot allocate memory for the buffer pool%' or body like '%Unable to lock %ibdata1%' or body like '%Can''t start server: %' or body like '%Data Dictionary initialization failed%' or body like '%Plugin ''InnoDB'' init function returned error%' or body like '%Can''t open and lock privilege tables%' or body like '%rror number 28%' or body like '%rrno: 28%' or body like '%with error 28%' or body like '%error number 30 %' or body like '%error number 24 %' or body like '%Error in accept: %' or body like '%Can''t create thread to handle new connection%' or body like '%got signal %' or body like '%Assertion failure: %' or body like '%unknown variable %' or body like '%WSREP: %' or body like '%group_replication%' or body like '%Disk full (%') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where coalesce(program, '') in ('', 'other', 'redis', 'redis-server', 'valkey-server') and (body like '%fork: Cannot allocate memory%' or body like '%Background saving error%' or body like '%Error writing to the AOF file%' or body like '%Write error saving DB on disk%' or body like '%Short write while writing to the AOF file%' or body like '%MISCONF%' or body like '%ould not create server TCP listening socket%' or body like '%Bad file format reading the append only file%' or body like '%Short read or OOM loading DB%' or body like '%Fatal error%loading the DB%' or body like '%RDB file%' or body like '%AOF %' or body like '%crashed by signal%' or body like '%Out Of Memory allocating%' or body like '%Cluster state changed: fail%' or body like '%Slow script detected%' or body like '%socket for SYNC%' or body like '%MASTER timeout%' or body like '%odown master%') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where attrs['ctx'] is not null and attrs['c'] is not null and (attrs['s'] in ('E', 'F') or body like 'Error %' or body like '%too many open connections' or body = 'Slow query') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where (body like '%WiredTiger (28)%' or body like '%WiredTiger error%' or body like '% F %Fatal %') and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where (body like '%resource limit alarm set%' or body like '%file descriptor limit alarm%' or body like '%running_partitioned_network%' or body like '%BOOT FAILED%' or body like '%disk watermark%' or body like '%[gc]%overhead, spent%' or body like '%master not discovered or elected%' or body like '%to [RED]%' or body like '%ncaughtExceptionHandler]%fatal error in thread%' or body like '%bootstrap checks failed%' or body like '%all log dirs in %' or body like '%to checkpoint file %' or body like '%Stopping serving %' or body like '%Fatal error during %startup%' or body like '%Exiting Kafka due to%' or body like '%Shrinking ISR from %' or body like '%Shunning server%' or body like '%mysql_real_connect()%' or body like '%Max connect timeout reached%' or body like '%Error during query on (%' or body like '%closing because: connect %' or body like '%closing because: server %fail%' or body like '%closing because: server login %' or body like '%closing because: server conn crashed%' or body like '%closing because: login failed%' or body like '%closing because: query timeout%' or body like '%closing because: no such database%' or body like '%pgbouncer cannot connect%' or body like '%pooler error: %' or body like '%server login failed: %' or body like '% connect() failed: %' or body in ('alarm raised', 'slow fdatasync') or body like '%mvcc: database space exceeded%') and ts > $now - interval '2 minutes' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.requests_stopped",
  "app.service_rejects", "app.service_unreachable", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.worker_timeout", "app.workers_exhausted", "db.not_answering",
  "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_slow", "proxy.upstream_timeout",
  "slo.burning", "app.service_hangs", "proxy.upstream_hangs",
]
subject = "{program} on {host}"
summary = "{program} on {host}: {what_text}, {lines} times in 2 minutes; it logs \"{line}\""
why = "{why_text}"
look_at = "`select ts, body from log where host = '{host}' and program = '{program}' and ts > now() - interval '10 minutes' order by ts`; PostgreSQL's DETAIL and STATEMENT follow the line."
silent_when = "No such line of PostgreSQL, MySQL, MariaDB, Redis, Valkey, MongoDB, RabbitMQ, Elasticsearch, OpenSearch, Kafka, etcd, PgBouncer or ProxySQL within 2 minutes; fewer than 5 deadlocks, fewer than 3 refused sessions or all within 5 s (a restart), and fewer than 3 lines of frequent checkpoints (deadlocks, lock waits, cancelled statements and checkpoints are notes: applications repeat such a transaction, bulk loads cause checkpoints; as the cause of failing requests they become as urgent as those). Replication and a pooler's server need 3 lines, lock waits and slow statements 5, long collections of garbage 2. Only the start of the server's message counts, which a client's statement cannot choose. Without the program's name (a container's output) only a line with its usual prefix counts."
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
readonly = "its file system is read-only"
descriptors = "it is out of file descriptors"
threads = "it cannot start a thread or process"
lockwait = "statements wait for locks"
cancelled = "statements are cancelled at a time limit"
slow = "statements are slow"
script = "a script blocks the server"
disk_slow = "its disk is slow, it waits for fsync"
config = "its configuration is rejected"
files = "it may not open its files"
replication = "replication is interrupted"
cluster = "its cluster has no majority or lost a part"
blocked = "it blocks publishers, a memory or disk limit is reached"
backend = "it cannot use the database server behind it"
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
readonly = "Every statement that writes fails, and PostgreSQL stops when it cannot write its control file."
descriptors = "It accepts no connection and opens no file beyond its limit."
threads = "The limit of processes or threads of its unit or user is reached, so new connections fail."
lockwait = "A transaction holds a lock that others need. They wait, and so do the requests that sent them."
cancelled = "Statements take longer than `statement_timeout` or `lock_timeout` allow, because of a lock, a plan that changed, or a slow disk."
slow = "Single statements take seconds; requests that send them wait that long."
script = "Redis runs one command at a time: all other clients wait until the script ends."
disk_slow = "Each commit waits for the disk. Everything that writes becomes slow."
config = "A reload left the old configuration in force; the next start fails with this one."
files = "Owner or rights of its files changed: a restore or an upgrade as another user."
replication = "The copy gets no changes, so what it answers grows old, and it may not take over."
cluster = "Without a majority a cluster accepts no writes, and some not even reads."
blocked = "RabbitMQ stops reading from all connections that publish until memory or disk is free again: publishers hang without an error."
backend = "The pooler or proxy runs, but the server behind it refuses, does not answer, or has no such login or database."
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
readonly = "See disk.readonly and `dmesg`. Repair the file system while the server is stopped."
descriptors = "`systemctl edit` its unit: `[Service]`, `LimitNOFILE=65536`, then restart. Fewer connections by a pooler help as well."
threads = "`systemctl edit` its unit: `[Service]`, `TasksMax=infinity`, `LimitNPROC=infinity`; fewer connections by a pooler."
lockwait = "PostgreSQL: `select pid, pg_blocking_pids(pid), state, query from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0`; end the one at the root (`pg_terminate_backend`). Set `lock_timeout = '3s'` in migrations."
cancelled = "Find what the statement of the next line waits for (pg_stat_activity, `explain (analyze, buffers)`). Do not raise the limit."
slow = "`explain` the statement of the line: an index that is missing, a plan that changed. MongoDB: `planSummary: COLLSCAN`."
script = "`SCRIPT KILL` (if it wrote nothing), then let it do less at once."
disk_slow = "See disk.slow and disk.stuck; what else writes to that disk? `appendfsync everysec` with `no-appendfsync-on-rewrite yes` shortens Redis' waits."
config = "Correct the line that it names before the next restart. PostgreSQL: `select * from pg_file_settings where error is not null`."
files = "`namei -l PATH`; give the files back to the server's user."
replication = "If it resumes by itself, the network or the primary's restart was it. If the segment or binary log is gone, build the replica again (`pg_basebackup`, CLONE); then keep more (`wal_keep_size`, a slot with `max_slot_wal_keep_size`, `binlog_expire_logs_seconds`)."
cluster = "Bring the missing members back first (their hosts, the network between them). Force a new majority only if they are lost for good: the other side may still accept writes."
blocked = "Let consumers work the queues off or delete queues without consumers; free disk or memory. The limits are `disk_free_limit` and `vm_memory_high_watermark`."
backend = "From its host: `nc -vz` to that server, then its own log: limits, login, name. PgBouncer's `SHOW SERVERS`, ProxySQL's `select * from runtime_mysql_servers`."
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
    regexp_match(body, '^[0-9]+:[XCSM] [0-9]{2} [A-Z][a-z]{2} (?:[0-9]{4} )?[0-9:.]+ [#*.-] (.*)$')[1] as of_redis,
    regexp_match(body, '^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]+Z UTC - |[0-9]{6} +[0-9:]+ \[ERROR\] (?:[a-z/]*/)?)((?:mysqld|mariadbd) got signal [0-9]+)')[1] as of_crashed_mysqld,
    -- Only errors of MongoDB's own parts: a query may hold any text.
    case when attrs['s'] in ('F', 'E', 'W', 'I') and attrs['ctx'] is not null
      then concat_ws(': ', body, case when attrs['c'] in ('STORAGE', 'WT', 'NETWORK', 'CONTROL', '-') then nullif(concat_ws(' ', attrs['attr.message.error_str'], attrs['attr.error.errmsg'], attrs['attr.error'], attrs['attr.message']), '') end)
      else regexp_match(body, '^(?:[0-9-]+T[0-9:.+Z-]+ )?[EFW] (?:STORAGE|NETWORK|CONTROL|REPL|-) +\[[A-Za-z0-9_-]+\] (.*)$')[1] end as of_mongodb,
    regexp_match(body, '^(?:[0-9-]+ [0-9:.]+(?:[+-][0-9:]+)? )?\[(?:warning|warn|error|critical|notice|info)\] <[0-9.]+> (.*)$')[1] as of_rabbitmq,
    regexp_match(body, '^\[[0-9T:,-]+\]\[(?:WARN|ERROR|INFO|FATAL) *\]\[(?:o\.[eo]\.|org\.)[A-Za-z0-9.]+ *\] \[[^\]]+\] (.*)$')[1] as of_elasticsearch,
    regexp_match(body, '^\[[0-9-]+ [0-9:,]+\] (?:WARN|ERROR|FATAL|INFO) (.*) [(](?:org[.]apache[.])?kafka[.][A-Za-z0-9.$]+[)]$')[1] as of_kafka,
    regexp_match(body, '^[0-9-]+ [0-9:.]+ (?:[A-Z]{2,5} )?\[?[0-9]+\]? (?:LOG|WARNING|ERROR|FATAL) ((?:[CS]-0x[0-9a-f]+: [^ ]+ |server login failed: ).*)$')[1] as of_pgbouncer,
    regexp_match(body, '^[0-9-]+ [0-9:]+ [A-Za-z_]+[.]cpp:[0-9]+:[A-Za-z0-9_~]+[(][)]: \[(?:ERROR|WARNING)\] (.*)$')[1] as of_proxysql,
    case when attrs['caller'] like 'etcdserver/%' then concat_ws(' ', body, attrs['alarm']) when attrs['caller'] like 'wal/%' then body end as of_etcd
  from log
  where ts > $now - interval '2 minutes' and ts <= $now
    and coalesce(program, '') in ('', 'other', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'redis', 'redis-server', 'valkey-server', 'mongod', 'mongodb', 'rabbitmq', 'rabbitmq-server', 'elasticsearch', 'opensearch', 'kafka', 'etcd', 'pgbouncer', 'proxysql')
    and (severity is null or severity not in ('debug', 'trace'))
  limit 50000
),
spoken as (
  select host, ts, severity,
    case when program in ('postgresql', 'postgres') then 'postgresql' when program in ('mysqld', 'mariadbd', 'mariadb') then 'mysqld'
      when program in ('redis', 'redis-server', 'valkey-server') then 'redis'
      when is_postgresql then 'postgresql' when of_mysqld is not null then 'mysqld' when of_redis is not null then 'redis'
      when of_mongodb is not null then 'mongodb' when of_rabbitmq is not null then 'rabbitmq' when of_elasticsearch is not null then 'elasticsearch' when of_kafka is not null then 'kafka'
      when of_pgbouncer is not null then 'pgbouncer' when of_proxysql is not null then 'proxysql' when of_etcd is not null then 'etcd' when of_crashed_mysqld is not null then 'mysqld'
    end as program,
    coalesce(of_crashed_mysqld, case when program <> 'pgbouncer' then of_postgresql end, of_mysqld, of_redis, of_mongodb, of_rabbitmq, of_elasticsearch, of_kafka, of_pgbouncer, of_proxysql, of_etcd, body) as body
  from forms
  -- Computes the message once, not for each pattern.
  limit 50000
),
named as (
  select host, ts, program, body,
    case
      when program = 'postgresql' and (regexp_like(body, '^could not (extend|write|create|fsync|open)[^:]*: No space left on device') or regexp_like(body, '^could not (write to|resize) (file|temporary file|shared memory segment) .*: No space left on device$')) then 'space'
      when program = 'postgresql' and regexp_like(body, '^could not [a-z ]+ "[^"]+": Read-only file system$') then 'readonly'
      when program = 'postgresql' and body = 'deadlock detected' then 'deadlocks'
      when program = 'postgresql' and regexp_like(body, '^checkpoints are occurring too frequently [(]') then 'checkpoints'
      when program = 'postgresql' and (regexp_like(body, '^database is not accepting commands (to avoid|that assign|that generate new MultiXactIds)') or regexp_like(body, '^database "[^"]+" must be vacuumed within [0-9]+ transactions$')) then 'wraparound'
      when program = 'postgresql' and (regexp_like(body, '^invalid page in block [0-9]+ of relation ') or regexp_like(body, '^could not (read blocks? [0-9.]+ in|fsync|fdatasync|write blocks? [0-9.]+ in|read|write to|seek to end of) file "[^"]+": (?:Input/output error|I/O error|read only [0-9]+ of)')) then 'corruption'
      when program = 'postgresql' and regexp_like(body, '^could not read blocks? [0-9.]+ in file "[^"]+": ') then 'corruption'
      when program = 'postgresql' and body in ('out of memory', 'out of shared memory') then 'memory'
      when program = 'postgresql' and regexp_like(body, '^archive command failed with exit code ') then 'archive'
      when program = 'postgresql' and regexp_like(body, '^(terminating connection because of crash of another server process|all server processes terminated; reinitializing)$') or program = 'postgresql' and regexp_like(body, '^(server process|startup process|checkpointer process|background writer process) [(]PID [0-9]+[)] was terminated by signal [0-9]+: ') then 'crash'
      when program = 'postgresql' and regexp_like(body, '^(out of file descriptors: |could not accept new connection: )Too many open files') then 'descriptors'
      when program = 'postgresql' and regexp_like(body, '^process [0-9]+ still waiting for [A-Za-z]+Lock on ') then 'lockwait'
      when program = 'postgresql' and regexp_like(body, '^canceling statement due to (lock timeout|statement timeout|conflict with recovery)$') then 'cancelled'
      when program = 'postgresql' and regexp_like(body, '^could not (open|access) (file|directory) "[^"]+": Permission denied$') then 'files'
      when program = 'postgresql' and (regexp_like(body, '^configuration file "[^"]+" contains errors') or body = 'pg_hba.conf was not reloaded' or regexp_like(body, '^could not load (server certificate|private key|root certificate) file ')) then 'config'
      when program = 'postgresql' and regexp_like(body, '^(could not receive data from WAL stream: |requested WAL segment [0-9A-F]+ has already been removed$|could not connect to the primary server: |terminating walreceiver due to timeout$|terminating walsender process due to replication timeout$|invalidating obsolete replication slot )') then 'replication'
      when program = 'postgresql' and regexp_like(body, '^(sorry, too many clients already|remaining connection slots are reserved )') then 'connections'
      when program = 'postgresql' and regexp_like(body, '^could not fork new process for connection: Resource temporarily') then 'threads'
      when program = 'postgresql' and regexp_like(body, '^could not fork new process for connection: ') then 'memory'
      when program = 'postgresql' and regexp_like(body, '^the database system is (in recovery mode|starting up|shutting down|not yet accepting connections|not accepting connections)$') then 'recovery'
      when program = 'mysqld' and regexp_like(body, '^(\[Repl\] )?(Slave|Replica) (SQL|I/O)( for channel ''[^'']*'')?: ') and severity in ('error', 'critical') then 'replica'
      when program = 'postgresql' and regexp_like(body, '^(could not bind (IPv4|IPv6|Unix) address |could not create any TCP/IP sockets$|data directory "[^"]+" has (wrong ownership|invalid permissions|group or world access)$|database files are incompatible with server$|could not locate a valid checkpoint record|could not map anonymous shared memory: )') then 'start'
      when program = 'mysqld' and (regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?(The table ''[^'']*'' is full|Disk is full writing ''|Disk full [(])') or regexp_like(body, '^(InnoDB: )?(Operating system error number 28 in a file operation|Error number 28 means|Write to file [^ ]+ failed at offset .*Operating system error number 28|preallocating [0-9]+ bytes for file [^ ]+ failed with error 28)|^Error writing file ''[^'']*'' [(](OS )?errno:? 28')) then 'space'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?Operating system error number 30 in a file operation') then 'readonly'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?Operating system error number 24 in a file operation') then 'descriptors'
      when program = 'mysqld' and regexp_like(body, '^Can''t create thread to handle new connection') then 'threads'
      when program = 'mysqld' and regexp_like(body, '^((mysqld|mariadbd) got signal (4|6|7|8|11)|(InnoDB: )?Assertion failure: )') then 'crash'
      when program = 'mysqld' and regexp_like(body, '^(WSREP: (no nodes coming from prim view|Received NON-PRIMARY|Reversing history: )|Plugin group_replication reported: ''This server is not able to reach a majority)') then 'cluster'
      when program = 'mysqld' and regexp_like(body, '^unknown (variable|option) ''') then 'start'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?Transactions deadlock detected, dumping detailed information') then 'deadlocks'
      when program = 'mysqld' and regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?Out of memory') then 'memory'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: )?(\#\#\# InnoDB: )?(Warning: a long semaphore wait|A long semaphore wait|Semaphore wait has lasted > [0-9]+ seconds)') then 'semaphore'
      when program = 'mysqld' and (regexp_like(body, '^(InnoDB: )?Database page corruption on disk or a failed') or regexp_like(body, '^([a-z/]*(mysqld|mariadbd): )?Table ''[^'']*'' is marked as crashed')) then 'corruption'
      when program = 'mysqld' and regexp_like(body, '^Too many connections$') then 'connections'
      when program = 'mysqld' and regexp_like(body, '^(InnoDB: |Fatal error: )?(Cannot allocate memory for the buffer pool|Unable to lock [./]*ibdata1|Can''t start server: |Data Dictionary initialization failed|Plugin ''InnoDB'' init function returned error|Can''t open and lock privilege tables)') then 'start'
      when program = 'redis' and regexp_like(body, '^(Warning: )?(Could not create server TCP listening socket |Bad file format reading the append only file|Short read or OOM loading DB|Fatal error loading the DB)') then 'start'
      when program = 'redis' and regexp_like(body, '^(Can''t save in background: fork: |Can''t rewrite append only file in background: fork: |Failed opening the (temp )?RDB file |Background AOF rewrite terminated with error|Background saving error|Write error saving DB on disk: |Error writing to the AOF file: |Short write while writing to the AOF file)') then 'save'
      when program = 'redis' and regexp_like(body, '^((Redis|Valkey) [0-9.]+ crashed by signal: |Out Of Memory allocating )') then 'crash'
      when program = 'redis' and regexp_like(body, '^Cluster state changed: fail') then 'cluster'
      when program = 'redis' and regexp_like(body, '^Slow script detected: ') then 'script'
      when program = 'redis' and regexp_like(body, '^Asynchronous AOF fsync is taking too long') then 'disk_slow'
      when program = 'redis' and regexp_like(body, '^(Error condition on socket for SYNC: |MASTER timeout: no data nor PING|\+odown master )') then 'replication'
      when program = 'mongodb' and regexp_like(body, '^WiredTiger (error( message)?:|error [(]28[)]|[(]28[)]) .*No space left on device') then 'space'
      when program = 'mongodb' and regexp_like(body, '^WiredTiger error( message)?: .*Read-only file system') then 'readonly'
      when program = 'mongodb' and regexp_like(body, '^WiredTiger error( message)?: .*(Input/output error|checksum|WT_ERROR: non-specific|WT_PANIC)') then 'corruption'
      when program = 'mongodb' and regexp_like(body, '^(Error accepting new connection[^:]*: Too many open files|WiredTiger error( message)?: .*Too many open files)') then 'descriptors'
      when program = 'mongodb' and regexp_like(body, '^Connection refused because there are too many open connections') then 'connections'
      when program = 'mongodb' and regexp_like(body, '^(Fatal assertion|Got signal|Invariant failure)') then 'crash'
      when program = 'mongodb' and regexp_like(body, '^(Error setting up listener|DBException in initAndListen|Failed to unlink socket file)') then 'start'
      when program = 'mongodb' and regexp_like(body, '^Too stale to catch up') then 'replication'
      when program = 'mongodb' and regexp_like(body, '^Slow query') then 'slow'
      when program = 'rabbitmq' and regexp_like(body, '^(disk|memory) resource limit alarm set on node ') then 'blocked'
      when program = 'rabbitmq' and regexp_like(body, '^file descriptor limit alarm set') then 'descriptors'
      when program = 'rabbitmq' and regexp_like(body, '^Mnesia[(][^)]*[)]: [*][*] ERROR [*][*] mnesia_event got [{]inconsistent_database, running_partitioned_network') then 'cluster'
      when program = 'rabbitmq' and regexp_like(body, '^BOOT FAILED') then 'start'
      when program = 'elasticsearch' and regexp_like(body, '^flood stage disk watermark \[[^\]]*\] exceeded on ') then 'space'
      when program = 'elasticsearch' and regexp_like(body, '^\[gc\]\[[0-9]+\] overhead, spent \[([0-9]{2,}(\.[0-9]+)?s|[5-9](\.[0-9]+)?s|[0-9.]+m)\]') then 'memory'
      when program = 'elasticsearch' and regexp_like(body, '^(master not discovered or elected yet|current\.health="RED" |Cluster health status changed from \[(GREEN|YELLOW)\] to \[RED\])') then 'cluster'
      when program = 'elasticsearch' and regexp_like(body, '^fatal error in thread ') then 'crash'
      when program = 'kafka' and regexp_like(body, '^(Error while writing to checkpoint file |Shutdown broker because all log dirs in |(\[[^\]]*\] )?Stopping serving (replicas|logs) in dir )') then 'corruption'
      when program = 'kafka' and regexp_like(body, '^(\[[^\]]*\] )?Fatal error during (KafkaServer|KafkaRaftServer|broker) startup|^Exiting Kafka due to fatal exception') then 'start'
      when program = 'kafka' and regexp_like(body, '^(\[[^\]]*\] )?Shrinking ISR from ') then 'replication'
      when program = 'etcd' and regexp_like(body, '^alarm raised NOSPACE') then 'space'
      when program = 'etcd' and body = 'slow fdatasync' then 'disk_slow'
      when program = 'pgbouncer' and regexp_like(body, '^(server login failed: |S-0x[0-9a-f]+: [^ ]+ (closing because: (connect failed|server DNS lookup failed|login failed|connect timeout|query timeout)|connect[(][)] failed: )|C-0x[0-9a-f]+: [^ ]+ (closing because|pooler error): (pgbouncer cannot connect to server|server login has been failing|no such database: |server login failed|server conn crashed))') then 'backend'
      when program = 'proxysql' and regexp_like(body, '^(Shunning server [^ ]+ with |Failed to mysql_real_connect[(][)] on |Max connect timeout reached while reaching hostgroup)') then 'backend'
      when program = 'proxysql' and regexp_like(body, '^Error during query on [(][^)]*[)]: 1040, Too many connections') then 'connections'
    end as what
  from spoken
  where program is not null
)
select host, program, program as database_program, what, what as database_problem, what as what_text, what as why_text, what as fix_text, count(*) as lines, max(substr(body, 1, 140)) as line,
  case when what in ('deadlocks', 'checkpoints', 'archive', 'wraparound', 'semaphore', 'save', 'replica') then 'app.errors, app.errors_quiet, app.service_rejects, app.slow, proxy.bad_gateway, proxy.haproxy_errors, proxy.haproxy_slow' when what = 'replication' then 'app.errors, app.errors_quiet, app.service_rejects, proxy.haproxy_errors' when what in ('config', 'disk_slow', 'slow', 'lockwait', 'cancelled', 'script') then 'app.errors, app.errors_quiet, app.requests_stopped, app.service_rejects, app.slow, app.slow_quiet, app.slow_requests_logged, app.worker_timeout, app.workers_exhausted, app.pool_exhausted, proxy.bad_gateway, proxy.upstream_timeout, proxy.haproxy_errors, proxy.haproxy_slow' end as explains,
  case when what <> 'replica' then 'mysql.replica_broken' end as not_explained_by,
  case when what in ('space', 'wraparound', 'corruption', 'crash', 'semaphore', 'save', 'readonly') then 'page' when what in ('deadlocks', 'checkpoints', 'lockwait', 'cancelled', 'slow', 'disk_slow') or what = 'replication' and program = 'kafka' then 'note' else 'mail' end as class
from named
where what is not null
group by host, program, what
having count(*) >= case when what in ('deadlocks', 'lockwait', 'slow') then 5 when what in ('checkpoints', 'recovery', 'backend', 'replication', 'cancelled') then 3 when program = 'elasticsearch' and what = 'memory' then 2 else 1 end
  and (what not in ('recovery', 'backend', 'replication') or date_part('epoch', max(ts)) - date_part('epoch', min(ts)) >= 5)
