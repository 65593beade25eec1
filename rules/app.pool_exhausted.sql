/*---
id = "app.pool_exhausted"
title = "Application's connection pool is exhausted"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "20s"
key = ["log_program"]
prefers = [
  "pg.lock_pileup", "mysql.lock_pileup", "redis.blocked", "db.not_answering",
  "db.connections_exhausted", "db.statements_slow",
]
needs = ["log", "db_server"]
when = """
select 1 from log where (body like '%pool%' or body like '%obtain a database connection%' or body like '%Pool%' or body like '%too many c%' or body like '%Too many connections%' or body like '%connection slots are reserved%' or body like '%max number of clients%' or body like '%timeout exceeded when trying to connect%' or body like '%query_wait_timeout%' or body like '%no more connections allowed%' or body like '%get a connection after%' or body like '%nable to fetch a connection in%' or body like '%max_user_connections%' or body like '%not available and request was dropped%' or body like '%checkout a Connection%' or body like '%AcquireTimeoutError%' or body like '%Connection is not available, request timed out%' or body like '%hecking out a connection%' or body like '%WaitQueue%' or body like '%pooled item%' or body like '%waiting for a connection%' or body like '%Pool#acquire%' or body like '%ending acquire queue%' or body like '%GetConnectionTimeout%' or body like '%cquisition timeout%' or body like '%get managed connection%' or body like '%Queue limit reached%' or body like '%provide a connection within the timeout%' or body like '%waiting for a slot%' or body like '%appropriate service handler%' or body like '%All pooled connections%' or body like '%DeadlineTimeoutException%' or body like '%Sorry, too many %' or body like '%BulkheadFull%' or body like '%Error 1040%' or body like '%too many open connections%' or body like '%Acquire%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.haproxy_slow", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.close_wait_leak",
  "unix.accept_queue_full", "slo.burning", "proxy.upstream_hangs",
]
subject = "{shown} on {host}"
summary = "{shown} on {host}: {lines} times in 30 s {what_text}{server_text}"
why = "{why_text}"
look_at = "The line itself: {line}. How long each request keeps its connection: a transaction around a call to another service, a connection that is not given back on an error path (the number only rises, and a restart helps for a while), or statements that became slow (db.statements_slow). Workers × pool size against `max_connections`."
silent_when = "Fewer than 3 such lines in 30 s. A message that merely mentions a pool does not count: the known wordings of common pools and servers do (SQLAlchemy, HikariCP, knex, node-postgres, Prisma, Sequelize, ActiveRecord, Npgsql, SqlClient, go-redis, Jedis, DBCP, c3p0, psycopg_pool, sqlx, DBConnection, PgBouncer, MongoDB, Reactor Netty, Apache HttpClient, Druid, Agroal, WildFly, MySqlConnector, mysql2, Finch, deadpool), where they start the message or stand behind the name of an exception; and of a web server's log only the errors of PHP itself. The rest of a line may be a visitor's; the servers' own logs are db.server_log."
fix = "{fix_text} Check: such lines end."
source = "SQLAlchemy error 3o7r; HikariCP connectionTimeout; node-postgres pool.connect; PostgreSQL errors 53300; MySQL error 1040"
[text.what_text]
pool = "no connection of its pool was free"
server = "the database server refused a connection: too many clients"
[text.server_text]
free = "; the server {server_address} has {free} free connections, so the pool is the limit"
full = "; the server {server_address} has {connections} of {connection_limit} connections in use"
unknown = ""
[text.why_text]
pool = "Each request waits for a free connection until the pool's timeout and then fails. The limit is in the application, not in the database: its connections are all in use, or were never given back."
server = "The server has a limit for all clients together. The next connection gets an error, in every application that shares it."
[text.fix_text]
pool = "First shorten what holds connections: no calls to other services inside a transaction, every path gives the connection back (`with`, `try/finally`, `defer rows.Close()`), a timeout for statements. Only if statements are short and the server has free connections: a larger pool (`pool_size`, `maximumPoolSize`, `max`), so that workers × pool stays below the server's limit."
server = "Shrink the pools so that their total stays below the server's limit, or put a pooler in front (pgbouncer, ProxySQL). Find out who holds the connections: db.connections_exhausted shows it for servers in `[[databases]]`."
---*/
with spoken as (
  -- As in app.service_unreachable: structured logs have the error beside the message, and PHP's stand in the web server's log.
  select host, ts, coalesce(nullif(program, ''), 'other') as program, body,
    regexp_replace(
      case
        when program = 'nginx' and message_template like 'FastCGI sent in stderr: %' then regexp_match(body, '^FastCGI sent in stderr: "PHP message: ((?:PHP (?:Fatal error|Recoverable fatal error|Warning): +|WordPress database error ).*)')[1]
        when program = 'apache' and attrs['module'] = 'proxy_fcgi' then regexp_match(body, '^AH01071: Got error ''PHP message: ((?:PHP (?:Fatal error|Recoverable fatal error|Warning): +|WordPress database error ).*)')[1]
        when program = 'apache' and attrs['module'] like 'php%' and severity <> 'notice' then regexp_match(body, '^((?:PHP (?:Fatal error|Recoverable fatal error|Warning): +|WordPress database error ).*)')[1]
        when program like 'php%fpm%' then regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?(?:\[pool [^\]]+\] )?child [0-9]+ said into stderr: "NOTICE: PHP message: ((?:PHP (?:Fatal error|Recoverable fatal error|Warning): +|WordPress database error ).*)')[1]
        when program in ('nginx', 'apache', 'apache2', 'httpd') then null
        else regexp_replace(regexp_replace(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body), '\x1b\[[0-9;]*m', '', 'g'),
            '(?s)^(?:Traceback .*\n)?([^\n]+).*$', '\1')
      end,
      concat('^ *(redis: |\[(mysql|sarama)\] )?(\[Nest\] [0-9]+ +- [0-9/]+, [0-9:]+ [AP]M +|[0-9-]+ [0-9:.]+:(WARN|ERROR):[A-Za-z0-9_.]+:[A-Za-z0-9_-]+: |\[?[0-9TZ :.,/+-]+\]?:? +(UTC |std(out|err) [FP] |([a-z_]+=[^ ]+ )+\[(error|critical)\] )?|\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] |[A-Z], \[[0-9T:.-]+ #[0-9]+\] +)?',
        '([A-Za-z0-9_./-]+[.]go:[0-9]+:? |pid=[0-9]+ tid=[a-z0-9]+ ([a-z]+=[A-Za-z0-9:_-]+ )*|Rack app [(]"[A-Z]+ [^" ]*" - [(][0-9a-fA-F.:]+[)][)]: )?',
        '((\[[A-Za-z0-9_.:#/-]+\] )?(ERROR|WARN|FATAL|SEVERE) +(\[[A-Za-z0-9_.:#/-]+\] )?[a-z][A-Za-z0-9_]*([.][A-Za-z0-9_$]+)+ *(- |: )|',
        '(ERROR|WARN|FATAL) +[0-9]+ --- (\[[^\]]+\] ){1,2}[A-Za-z0-9_.$/\[\]]+ *: |(FATAL|ERROR|WARN) -- : (\[[A-Za-z0-9-]+\] )*|',
        '[a-z]+[.](WARNING|ERROR|CRITICAL|ALERT|EMERGENCY): |([A-Za-z0-9_.]+ )?- (ERROR|CRITICAL|WARNING) - |(ERROR|CRITICAL):[A-Za-z0-9_.]+:|(ERROR|CRITICAL|WARNING)/[A-Za-z0-9-]+\] (consumer: )?|\| (ERROR|CRITICAL|WARNING) +\| [A-Za-z0-9_.<>]+:[A-Za-z0-9_.<>]+:[0-9]+ - |',
        '(ERR|FTL|WRN)\] |(ERROR|WARN|FATAL) \[[A-Za-z0-9_:]+\] |(ERROR|WARN) +\[[A-Za-z0-9_.$-]+\] [(][A-Za-z0-9_# -]+[)] |(ERROR|WARN|WARNING|CRITICAL|FATAL) +\[?[a-z0-9_]+((::|[.])[a-z0-9_]+)*(: |\]:? +)|(ERROR|CRITICAL) [0-9-]+ [0-9:,]+ [A-Za-z0-9_.]+ [0-9]+ [0-9]+ |',
        '(\[[0-9]+\] )?\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG)\]?:? +|\[(error|fatal)\] +|(error|fatal): +)?',
        '(PHP (Fatal error|Recoverable fatal error|Warning): +|Unhandled exception[.] |(failed to connect|ping|pq|redis|sql|mysql|pgx|database|db|cache|store|error|connect|heartbeat): )?(Uncaught (exception )?)?(#<)?'), '') as text
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and coalesce(program, '') not in ('haproxy', 'caddy', 'traefik', 'envoy', 'sshd', 'weir', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'mysql', 'redis', 'redis-server', 'valkey-server', 'mongod', 'rabbitmq', 'rabbitmq-server', 'memcached', 'dockerd', 'containerd', 'kubelet', 'systemd') and coalesce(severity, '') not in ('debug', 'trace')
    and regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body),
      '[Pp]ool|obtain a database connection|oo many c|connection slots are reserved|max number of clients|max_user_connections|timeout exceeded when trying to connect|query_wait_timeout|no more connections allowed|get a connection after|fetch a connection in|checkout a Connection|AcquireTimeoutError|Connection is not available, request timed out|not available and request was dropped|[Cc]hecking out a connection|WaitQueue|[Aa]cquir|pooled item|GetConnectionTimeout|cquisition|managed connection|Queue limit reached|provide a connection within|waiting for a slot|service handler|DeadlineTimeout|BulkheadFull|53300')
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
-- The message behind the names of exceptions and the codes of drivers.
messages as (
  select host, ts, program, body, text, regexp_replace(text, concat('^(Caused by: )?(Postgrex\.Protocol [(]#PID<[0-9.]+>[)] failed to connect: )?([*][*] |#<)?([(]?([A-Za-z_][A-Za-z0-9_$]*([.]|::|\\))*[A-Za-z0-9_]*(Error|Exception|exception|ConnectionBad|Undefined(Table|Column)|ReadOnlySqlTransaction|QueryCanceled|DeadlockDetected|Deadlocked|AdminShutdown|LockNotAvailable|LockWaitTimeout|StatementInvalid|StatementTimeout|ConnectionNotEstablished|Failure)([)] |[)]: |[)]$| [(]0x[0-9a-fA-F]+[)]: |: [(]?| [(])){0,3}',
      '(Command failed with error [0-9]+ [(][A-Za-z]+[)]: |failed to connect to `[^`]*`: (failed SASL auth|server error|hostname resolving error) [(]|connection (to server )?(at|on) "[^"]*"( [(][^)]*[)])?(, port [0-9]+)? failed: |',
      'SQLSTATE\[[0-9A-Z]+\] ?(: )?(\[[0-9]+\] |[A-Z][A-Za-z ]+: [0-9]* ?)|[a-z_:]+[(][)]: [(][0-9A-Z]{5}/[0-9]+[)]: |[(]?[0-9]+, ["'']|Error [0-9]+( [(][0-9A-Z]+[)])?: |ER_[A-Z_]+: |WordPress database error |FATAL [0-9A-Z]{5} [(][a-z_]+[)] |server login failed: |[0-9][0-9A-Z]{4}: |Data source rejected establishment of connection, +message from server: "|PHP Exception [A-Za-z\\]+: "An exception occurred (in the driver|while executing a query): SQLSTATE\[[0-9A-Z]+\] ?(: )?(\[[0-9]+\] |[A-Z][A-Za-z ]+: [0-9]* ?))?((FATAL|ERROR): +)?(ERR )?'), '') as message
  from spoken
  where text is not null
),
lines as (
  select host, program, text as body, ts,
    case
      when regexp_like(message, '^([Ss]orry, too many clients already|ORA-(12519|12516|00018|00020)[,:] |remaining connection slots are reserved|too many connections for (role|database) |Too many connections([ "'']|$)|max number of clients reached|no more connections allowed|User [^ ]+ (already )?has (already )?more than ''max_user_connections'')')
        or regexp_like(message, '^C-0x[0-9a-f]+: [^ ]+ (pooler error|closing because): no more connections allowed') then 'server'
      when regexp_like(message, '^(QueuePool limit of size |HikariPool[^ ]{0,40} - Connection is not available, request timed out|[A-Za-z0-9_-]+ - Connection is not available, request timed out after |(Knex: )?Timeout acquiring a connection|could not obtain a (database )?connection (from the pool |)within |could not obtain a connection from the pool|timeout exceeded when trying to connect|The connection pool has been exhausted|Timeout expired[.] +The timeout period elapsed prior to obtaining a connection from the pool|(redis: )?connection pool (timeout|exhausted)|Could not get a resource from the pool|Cannot get a connection, pool error|Timed out fetching a new connection from the connection pool|Timed out while checking out a connection from connection pool|query_wait_timeout|couldn''t get a connection after |(\[[^\]]+\] )?Timeout: Pool empty[.] Unable to fetch a connection in |pool timed out while waiting for an open connection|connection not available and request was dropped from queue after |An attempt by a client to checkout a Connection has timed out|Timed out (while checking out|waiting for) a connection from (the )?connection pool|timed out while checking out a connection from connection pool|Too many operations are already waiting for a connection|wait millis [0-9]+, active [0-9]+, maxActive |Sorry, acquisition timeout|IJ000453: |Timeout waiting for connection from pool|Queue limit reached[.]|Finch was unable to provide a connection within the timeout|Timeout occurred while waiting for a slot to become available|Connect Timeout expired[.] All pooled connections are in use|Pool#acquire[(]Duration[)] has been pending|Pending acquire queue has reached its maximum|Bulkhead ''[^'']+'' is full|Could not get a resource since the pool is exhausted|Unable to acquire JDBC Connection|Timeout waiting for a pooled item after |No free connection |pool exhausted)')
        or regexp_like(message, '^Deadline: [0-9T:.+-]+, -?[0-9]+ [A-Z]+ overdue') or regexp_like(text, 'JDBCConnectionException: Unable to acquire JDBC Connection')
        or regexp_like(text, '^(httpx[.]|httpcore[.]|psycopg_pool[.]|pymongo[.]errors[.])?(PoolTimeout|MongoWaitQueueTimeoutError|WaitQueueTimeoutError|SequelizeConnectionAcquireTimeoutError)(: |$)')
        or regexp_like(message, '^C-0x[0-9a-f]+: [^ ]+ (pooler error|closing because): query_wait_timeout') then 'pool'
    end as kind
  from messages
),
counted as (
  select host, program, kind, count(*) as lines, max(left(body, 160)) as line
  from lines where kind is not null
  group by host, program, kind
),
most as (
  select *, row_number() over (partition by host, program order by lines desc) as place from counted
),
servers as (
  select host, server_address, connections, connection_limit,
    row_number() over (partition by host order by case when system = 'redis' then 1 else 0 end, cast(connections as double) / connection_limit desc, ts desc) as place
  from db_server
  where ts > $now - interval '15 seconds' and ts <= $now and connection_limit > 0 and connections is not null
)
select m.host, m.program, m.program as log_program, m.lines, m.line, s.server_address, s.connections, s.connection_limit, s.connection_limit - s.connections as free,
  case when m.program in ('nginx', 'apache') or m.program like 'php%' then 'PHP' when m.program = 'other' then 'an application' else m.program end as shown,
  -- The server's own words name it; a pool may be of any store.
  case when m.kind = 'server' then case when regexp_like(m.line, '([Ss]orry, too many clients already|remaining connection slots are reserved)') then 'postgresql, pgbouncer'
    when regexp_like(m.line, 'max number of clients reached') then 'redis' end end as database_program,
  m.kind as what_text, m.kind as why_text, m.kind as fix_text,
  case when s.server_address is null then 'unknown'
       when m.kind = 'pool' and s.connections < 0.8 * s.connection_limit then 'free' else 'full' end as server_text
from most m
left join servers s on s.host = m.host and s.place = 1
where m.place = 1 and m.lines >= 3
