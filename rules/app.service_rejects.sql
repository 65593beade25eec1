/*---
id = "app.service_rejects"
title = "Service rejects the application"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "30s"
key = ["log_program", "store", "what"]
prefers = ["db.not_answering", "pg.lock_pileup", "mysql.lock_pileup", "disk.full", "disk.readonly", "db.server_log"]
needs = ["log", "request"]
when = """
select 1 from log where (body like '%uthentication failed%' or body like '%not permitted to log in%' or body like '%Access denied for user %' or body like '%no pg_hba.conf entry%' or body like '%NOAUTH %' or body like '%WRONGPASS %' or body like '%Authentication required%' or body like '%Login failed for user %' or body like '%is blocked because of many connection errors%' or body like '%is not allowed to connect to this %') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '% does not exist%' or body like '%doesn''t exist%' or body like '%Unknown database %' or body like '%Unknown column %' or body like '%no such table: %' or body like '%no such column: %') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%read-only transaction%' or body like '%read-only option%' or body like '%a read only %' or body like '%readonly database%' or body like '%not primary%' or body like '%NotWritablePrimary%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%the database system is %' or body like '%LOADING %' or body like '%is loading the dataset in memory%' or body like '%MASTERDOWN %' or body like '%CLUSTERDOWN %' or body like '%command not allowed when used memory%' or body like '%MISCONF %' or body like '%database or disk is full%' or body like '%o space left on device%' or body like '%is full%' or body like '%rrno%28%' or body like '%Disk full%' or body like '%ead-only file system%' or body like '%nput/output error%' or body like '%disk I/O error%' or body like '%image is malformed%' or body like '%unable to open database file%' or body like '%marked as crashed%' or body like '%out of memory storing%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%server has gone away%' or body like '%Lost connection to %' or body like '%server closed the connection unexpectedly%' or body like '%terminating connection due to %' or body like '%connection has been closed%' or body like '%onnection lost: %' or body like '%onnection terminated %' or body like '%max retries per request%' or body like '%ocket closed unexpectedly%' or body like '%client is closed%' or body like '%in closed state%' or body like '%connection already closed%' or body like '%connection is closed%' or body like '%was closed in the middle%' or body like '%erver has gone away%' or body like '%InterfaceError: (0, %' or body like '%Error while reading from %' or body like '%onnection closed by server%' or body like '%no connection to the server%' or body like '%sending to the backend%' or body like '%bad connection%' or body like '%invalid connection%' or body like '%unexpected EOF%' or body like '%recv (idle): closed%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%Lock wait timeout exceeded%' or body like '%eadlock %' or body like '%canceling statement due to %' or body like '%database is locked%' or body like '%deadlocked on lock%' or body like '%Execution Timeout Expired%' or body like '%exceeded time limit%' or body like '%WriteConflict%' or body like '%RequestTimeTooSkewed%' or body like '%SlowDown%' or body like '%InvalidAccessKeyId%' or body like '%SignatureDoesNotMatch%' or body like '%ExpiredToken%' or body like '%ThroughputExceeded%' or body like '%CircuitBreakingException%' or body like '%rejected execution of%' or body like '%blocked by: [%' or body like '%all shards failed%' or body like '%master_not_discovered%' or body like '%NotEnoughReplicas%' or body like '%username-password pair%' or body like '%ACCESS_REFUSED%' or body like '%SaslAuthenticationException%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%BUSY %' or body like '%lient Error: %' or body like '%erver Error: %' or body like '%lient error%' or body like '%erver error%' or body like '%status code %' or body like '%HttpClientError%' or body like '%HttpServerError%' or body like '%WebClientResponseException%' or body like '%FeignException%' or body like '%HTTP Error %' or body like '%responded with status %' or body like '%RestClient::%' or body like '%ClientResponseError%' or body like '%Response code %' or body like '%Error code: %') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.pool_exhausted", "app.requests_stopped", "app.slow",
  "app.slow_quiet", "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.workers_die", "app.workers_exhausted", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.upstream_errors", "proxy.upstream_timeout", "slo.burning", "proxy.upstream_hangs",
]
subject = "{shown} on {host}: {store}"
summary = "{store} rejects {shown} on {host}: {what_text}, {lines} times in 30 s{share_text}"
why = "{why_text} Each request that needs it fails at once, although the application, the network and the store's process all run."
look_at = "The line: {line}. When did it begin: a deploy, a rotated password, a failover, a restart of the store?"
silent_when = "Fewer than 3 such lines of a kind in 30 s. A page if at least 20 % of the host's requests failed meanwhile. Locks are a note while no request fails (applications repeat such a transaction), and so is a missing table (a page that few visit). Only what starts like the error of a driver counts (psycopg, pgx, JDBC, node-postgres, PyMySQL, mysql2, PDO, mysqli, ActiveRecord, redis clients), and of a web server's log only the errors of PHP itself. An error status of an HTTP service (Requests, httpx, aiohttp, axios, got, Guzzle, Spring, Feign, Faraday, .NET: 401, 402, 403, 407, 429, 5xx) counts only while at least 5 requests and 5 % fail and if there is a line for each fifth of them, since webhooks of customers answer such a status all day; without a log of requests it is a note. The server's own log (PostgreSQL, MySQL, Redis) has the passwords that strangers try, and does not count here."
fix = "{fix_text} Check: the lines end."
source = "RFC 6585 (429); Redis BUSY (busy-reply-threshold); PostgreSQL errcodes.txt (28P01, 3D000, 42P01, 25006, 57P03, 57P01, 55P03, 57014); MySQL errmsg (1045, 1049, 1129, 1130, 1146, 1054, 1290, 2006, 2013, 1205, 1213); Redis server.c, shared.readonlyerr, noautherr, oomerr, loadingerr, bgsaveerr; github.com/StackExchange/StackExchange.Redis #2264"
[text.what_text]
login = "the login fails"
host = "the address of this host is blocked or not allowed"
missing_database = "the database does not exist"
missing_table = "a table or column does not exist"
readonly = "it is read-only, writes fail"
starting = "it is starting or loading its data"
memory = "its memory limit is reached, writes fail"
save = "it stopped accepting writes, it cannot save its data"
cluster = "a part of the cluster is down"
lost = "sessions are cut"
lock = "statements give up at a lock or time limit"
space = "its disk is full"
storage = "its storage returns errors"
clock = "the clock of this host is wrong"
overload = "it is overloaded and refuses requests"
script = "a script blocks it (BUSY)"
rate = "it limits the rate (429)"
denied = "it refuses the credentials (401, 402, 403 or 407)"
status = "it answers with errors (5xx)"
[text.why_text]
login = "User, password, database or address are not what the store allows: a rotated secret that the application has not read, a user that was dropped, a missing line in pg_hba.conf."
host = "MySQL and MariaDB block an address after `max_connect_errors` connections in a row that broke off during the handshake (a balancer's TCP check is such a connection, and so is a network that loses packets), or no account is allowed from this address."
missing_database = "The application asks for another database than this server has: a wrong server or name, a restore that is not complete."
missing_table = "The schema is not what this version of the application expects: a migration has not run, ran on another server, or a new version started before it."
readonly = "The application writes to a replica: after a failover it still holds connections to the old primary, or the name points at the wrong server."
starting = "The store was restarted or fails over, and reads its data. With much data this takes minutes."
memory = "The store may not grow and may not remove keys (`noeviction`), so it answers every write with an error; reads go on."
save = "The last snapshot failed, so the store refuses writes to lose nothing more. The reason is in its own log: disk, permission or memory."
cluster = "Some keys have no node that serves them, because a node and its replica are down, or slots were never assigned."
lost = "The server ended sessions that the application still uses: a restart, a crash, an idle timeout shorter than the pool's, or a firewall or proxy between both that forgets idle connections."
lock = "Statements wait for a lock or for a slow plan until a limit ends them."
space = "The disk of its files, or its quota, is full, so every write fails while reads work."
storage = "The store's disk returns errors or a file of it is damaged or cannot be opened, so statements fail."
clock = "The service compares the time of a signed request with its own and refuses it from some minutes of difference on."
overload = "The store protects itself: its queue, memory budget or rate limit is used up, so it answers some requests with an error."
script = "It runs one command at a time. After `busy-reply-threshold` (5 s) of one script it answers all other commands with an error."
rate = "The service allows fewer requests than the application sends. A quota of a day or month returns only then; a limit per second passes as soon as less is sent."
denied = "The token or key expired, was revoked or lost a right, the account is blocked or unpaid, or the address of this host is no longer allowed."
status = "The service itself fails. The application has no other answer for that case and hands the error on to its visitors."
[text.fix_text]
login = "Compare the secret that the process has (`/proc/PID/environ`, its mounted file) with the store's, try it by hand, then restart the application. PostgreSQL: `select * from pg_hba_file_rules`."
host = "Blocked: `FLUSH HOSTS` (MySQL 8: `TRUNCATE performance_schema.host_cache`), then find what breaks off connections: `select ip, sum_connect_errors from performance_schema.host_cache`. Not allowed: an account for this address (`'app'@'10.0.0.%'`)."
missing_database = "Correct the name or address, or restore the database. Do not let the application create an empty one."
missing_table = "Run the migration on this server, or roll the application back to the version before."
readonly = "Find the primary (`select pg_is_in_recovery()`, `select @@read_only`, `ROLE`), let the application connect to it, and drop its old connections (restart it, or limit the lifetime of pooled connections). Do not make the replica writable."
starting = "Wait and watch its log; do not restart it again. Let the application retry with a pause."
memory = "Find what grows (`redis-cli --bigkeys`, keys without expiry). If it is a cache: `CONFIG SET maxmemory-policy allkeys-lru`. If the data is needed: raise `maxmemory` if the host has the memory."
save = "Read its log (`No space left`, `Permission denied`, `fork: Cannot allocate memory`), repair that, then `BGSAVE`. `CONFIG SET stop-writes-on-bgsave-error no` only to win time: data may be lost."
cluster = "`redis-cli --cluster check HOST:PORT` names the slots; bring the node back or fail over."
lost = "Did the server restart (its log, mem.oom_kill)? If not, let the pool test and renew connections (`pool_pre_ping`, `CONN_MAX_AGE`, `maxLifetime`) below the shortest timeout in between."
lock = "Find who holds the lock: `select * from pg_stat_activity where wait_event_type = 'Lock'`, `select * from sys.innodb_lock_waits`. End that transaction; keep transactions short."
space = "Free or add space where its files lie, or raise the quota. Elasticsearch from 7.4 on lifts the block itself below the watermark. Delete no file below its directory by hand."
storage = "Look at its own log and `dmesg` first (disk.io_error, disk.readonly). Take a copy of the files before any repair; then restore, or `CHECK TABLE`/`REPAIR TABLE`, `PRAGMA integrity_check`."
clock = "`chronyc makestep` (or `timedatectl set-ntp true`) on {host}, then see clock.unsynced. In a virtual machine that was suspended the clock is behind until then."
overload = "Send less at once: smaller batches, fewer parallel requests, retries with a growing pause. Find what is new since it began; then size the store for it."
script = "`redis-cli SCRIPT KILL` (or `FUNCTION KILL`). If the script has written already, only `SHUTDOWN NOSAVE` ends it, and the writes since the last save are lost. Then give the script fewer keys per call."
rate = "Send less: cache its answers, join requests, queue what can wait; repeat only after `Retry-After`, with a growing pause. Answer visitors with the last known value instead of an error. Then ask the provider for a higher limit."
denied = "Call it by hand with the application's secret (`curl -i`): its body has the reason. Renew the secret where the application reads it, restart the application, and check the provider's account."
status = "Look at that service's own log, or the provider's status page. Until it works: the last known value, or the page without that part, instead of an error."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
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
    and coalesce(program, '') not in ('haproxy', 'caddy', 'traefik', 'envoy', 'sshd', 'weir', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'mysql', 'redis', 'redis-server', 'valkey-server', 'mongod', 'rabbitmq', 'rabbitmq-server', 'memcached', 'pgbouncer', 'dockerd', 'containerd', 'kubelet', 'systemd') and coalesce(severity, '') not in ('debug', 'trace')
    and regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body),
      '[Aa]uthentication failed|not permitted to log in|Authentication required|is blocked because of many|is not allowed to connect to this |Access denied for user|pg_hba|NOAUTH|WRONGPASS|Login failed for user|does(n''t| not) exist|Unknown (database|column)|no such (table|column)|read[- ]?only |the database system is|LOADING|loading the dataset|MASTERDOWN|CLUSTERDOWN|command not allowed|MISCONF|disk is full|gone away|Lost connection|closed the connection|terminating connection|closed unexpectedly|[Ll]ock |eadlock|canceling statement|is locked|not primary|onnection lost|terminated (unexpectedly|due to)|max retries per request|[Ss]ocket closed|client is closed|in closed state|already closed|is closed|was closed in|[Ss]erver has gone|InterfaceError: [(]0, |reading from [^ ]+ ?:? ?[(]|Connection closed by server|no connection to the server|sending to the backend|has been closed|bad connection|invalid connection|unexpected EOF|recv [(]idle[)]|o space left on device|is full|errno:? 28|Disk full|ead-only file system|nput/output error|disk I/O error|disk image is malformed|unable to open database file|marked as crashed|BUSY (Redis|Valkey) is|[45][0-9]{2} (Client|Server) Error: |(Client|Server) error|status code [45]|Http(Client|Server)ErrorException|WebClientResponseException|FeignException|HTTP Error [45]|responded with status|indicate success|RestClient::|ClientResponseError|Response code [45]|Error code: [45]|deadlocked on lock|Execution Timeout Expired|exceeded time limit|username-password pair|ACCESS_REFUSED|SaslAuthentication|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|RequestTimeTooSkewed|SlowDown|Throughput|CircuitBreakingException|Data too large|rejected execution|blocked by: |cluster_block|all shards failed|master_not_discovered|NotEnoughReplicas|out of memory storing|WriteConflict')
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
-- The message behind the names of exceptions and the codes of drivers.
messages as (
  select host, ts, program, body, text, regexp_replace(text, concat('^(Caused by: )?([*][*] |#<)?([(]?([A-Za-z_][A-Za-z0-9_$]*([.]|::|\\))*[A-Za-z0-9_]*(Error|Exception|exception|ConnectionBad|Undefined(Table|Column)|ReadOnlySqlTransaction|QueryCanceled|DeadlockDetected|Deadlocked|AdminShutdown|LockNotAvailable|LockWaitTimeout|StatementInvalid|StatementTimeout|ConnectionNotEstablished|UnableToSend|Failure)([)] |[)]: |[)]$| [(]0x[0-9a-fA-F]+[)]: |: [(]?| [(])){0,3}',
      '(Command failed with error [0-9]+ [(][A-Za-z]+[)]: |failed to connect to `[^`]*`: (failed SASL auth|server error|hostname resolving error) [(]|connection (to server )?(at|on) "[^"]*"( [(][^)]*[)])?(, port [0-9]+)? failed: |',
      'SQLSTATE\[[0-9A-Z]+\] ?(: )?(\[[0-9]+\] |[A-Z][A-Za-z ]+: [0-9]* ?)|[a-z_:]+[(][)]: [(][0-9A-Z]{5}/[0-9]+[)]: |[(]?[0-9]+, ["'']|Error [0-9]+( [(][0-9A-Z]+[)])?: |ER_[A-Z_]+: |WordPress database error |FATAL [0-9A-Z]{5} [(][a-z_]+[)] |pg_query[(][)]: Query failed: |[0-9][0-9A-Z]{4}: |PHP Exception [A-Za-z\\]+: "An exception occurred (in the driver|while executing a query): SQLSTATE\[[0-9A-Z]+\] ?(: )?(\[[0-9]+\] |[A-Z][A-Za-z ]+: [0-9]* ?))?((FATAL|ERROR): +)?(ERR )?'), '') as message
  from spoken
  where text is not null
),
-- The status of an HTTP service, as its clients write it: Requests, httpx, axios, Guzzle, Spring, Feign, urllib, Faraday,
-- rest-client, .NET, aiohttp, got, OpenAI's and Anthropic's.
answered as (
  select *, coalesce(
      regexp_match(message, '^(40[1237]|429|5[0-9]{2}) (?:Client|Server) Error: [^:]{0,60} for url: ')[1],
      regexp_match(message, '^(?:Client|Server) error ''(40[1237]|429|5[0-9]{2}) [^'']{0,60}'' for url ')[1],
      regexp_match(message, '^Request failed with status code (40[1237]|429|5[0-9]{2})$')[1],
      regexp_match(message, '^(?:Client|Server) error: `[A-Z]+ [^`]+` resulted in a `(40[1237]|429|5[0-9]{2}) [^`]{0,60}` response')[1],
      regexp_match(text, '^(?:Caused by: )?(?:[a-z]+[.])*(?:HttpClientErrorException|HttpServerErrorException|WebClientResponseException)(?:\$[A-Za-z]+)?: (40[1237]|429|5[0-9]{2}) ')[1],
      regexp_match(text, '^(?:Caused by: )?(?:feign[.])?FeignException(?:\$[A-Za-z]+)?: \[(40[1237]|429|5[0-9]{2}) [^\]]{0,60}\] during ')[1],
      regexp_match(text, '^(?:urllib[.]error[.])?HTTPError: HTTP Error (40[1237]|429|5[0-9]{2}): ')[1],
      regexp_match(text, '^Faraday::[A-Za-z]+: the server responded with status (40[1237]|429|5[0-9]{2})')[1],
      regexp_match(text, '^RestClient::[A-Za-z]+: (40[1237]|429|5[0-9]{2}) ')[1],
      regexp_match(text, '^(?:System[.]Net[.]Http[.])?HttpRequestException: Response status code does not indicate success: (40[1237]|429|5[0-9]{2}) ')[1],
      regexp_match(text, '^(?:aiohttp[.]client_exceptions[.])?ClientResponseError: (40[1237]|429|5[0-9]{2}), message=')[1],
      regexp_match(text, '^HTTPError: Response code (40[1237]|429|5[0-9]{2}) [(]')[1],
      regexp_match(text, '^(?:openai|anthropic)[.][A-Za-z]+: Error code: (40[1237]|429|5[0-9]{2}) - ')[1]) as status,
    -- The first address is the client's; what a visitor wrote can only follow as its path.
    regexp_match(text, 'https?://(?:[^/@ ]{0,80}@)?([A-Za-z0-9_.:\[\]-]{1,80})')[1] as address
  from messages
),
matched as (
  select host, program, text as body,
    case
      when status is not null then coalesce(address, 'an HTTP service')
      when regexp_like(message, '^BUSY (Redis|Valkey) is busy running a script') then 'Redis'
      when regexp_like(message, '^(NOAUTH |WRONGPASS |READONLY |MISCONF |OOM command|command not allowed when used memory|LOADING |(Redis|Valkey) is loading the dataset|MASTERDOWN |CLUSTERDOWN |You can''t write against a read only |Authentication required)') then 'Redis'
      when regexp_like(message, '^(Access denied for user|Host ''[^'']*'' is (blocked|not allowed)|Unknown (database|column) ''|Table ''|The (MySQL|MariaDB) server is running|MySQL server has gone away|Lost connection to |Lock wait timeout|Deadlock found)') then 'MySQL'
      when regexp_like(message, '^(no such (table|column): |attempt to write a readonly database|database is locked|database or disk is full)') then 'SQLite'
      when regexp_like(text, '^(redis[.]|Redis|#<Redis|MaxRetriesPerRequestError|ClientClosedError|SocketClosedUnexpectedlyError|Error: Socket closed unexpectedly|([A-Za-z.]*[.])?Jedis|redis[.]clients)') then 'Redis'
      when regexp_like(text, '^([(]?pymysql|[(]?MySQLdb|Mysql2|mysqli?_?|com[.]mysql|PDOException: SQLSTATE\[HY000\])') or regexp_like(message, '^(Connection lost: The server closed|Can''t add new command|Server has gone away|0, ''|The table ''|Error writing file ''|Disk full |Table ''[^'']*'' is marked as crashed|invalid connection$|bad connection$|unexpected EOF$)') then 'MySQL'
      when regexp_like(message, '^(disk I/O error|database disk image is malformed|unable to open database file)') then 'SQLite'
      when regexp_like(text, 'RequestTimeTooSkewed') or regexp_like(message, '^An error occurred [(](RequestTimeTooSkewed|SlowDown|InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|ProvisionedThroughputExceededException|ThrottlingException)[)]') then 'AWS or S3'
      when regexp_like(text, '(lasticsearch|opensearch|cluster_block|\[parent\] Data too large|all shards failed|master_not_discovered|EsRejected)') then 'Elasticsearch'
      when regexp_like(text, '(NotEnoughReplicas|SaslAuthentication)') then 'Kafka'
      when regexp_like(text, 'ACCESS_REFUSED') then 'RabbitMQ'
      when regexp_like(message, '^SERVER_ERROR out of memory storing') then 'Memcached'
      when regexp_like(message, '^(not primary|Authentication failed[.]|WriteConflict|operation exceeded time limit)') then 'MongoDB'
      when regexp_like(message, '^(Login failed for user |Transaction [(]Process ID |Execution Timeout Expired)') then 'SQL Server'
      when message = 'driver: bad connection' then 'a database'
      else 'PostgreSQL'
    end as store,
    case
      when status = '429' then 'rate'
      when status like '4%' then 'denied'
      when status is not null then 'status'
      when regexp_like(message, '^BUSY (Redis|Valkey) is busy running a script') then 'script'
      when regexp_like(message, '^(password authentication failed for user "|no pg_hba[.]conf entry for host |role "[^"]*" (does not exist|is not permitted to log in)|Access denied for user ''|NOAUTH |WRONGPASS |Authentication required|Login failed for user ''|Authentication failed[.]|invalid username-password pair|An error occurred [(](InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken)[)]|[(403, "'']*ACCESS_REFUSED )') or regexp_like(text, '^(Caused by: )?org\.apache\.kafka\.common\.errors\.SaslAuthenticationException: ') then 'login'
      when regexp_like(message, '^Host ''[^'']*'' is (blocked because of many connection errors|not allowed to connect to this )') then 'host'
      when regexp_like(message, '^(database "[^"]*" does not exist|Unknown database '')') then 'missing_database'
      when regexp_like(message, '^(relation "[^"]*" does not exist|column [^ ]+ (of relation "[^"]*" )?does not exist|Table ''[^'']*'' doesn''t exist|Unknown column ''|no such (table|column): )') then 'missing_table'
      when regexp_like(message, '^(cannot execute [A-Z ]+ in a read-only transaction|The (MySQL|MariaDB) server is running with the --(super-)?read-only option|(READONLY )?You can''t write against a read only (replica|slave)|attempt to write a readonly database|not primary)|^could not (open|create|write to|extend) (temporary )?file "[^"]+": Read-only file system') then 'readonly'
      when regexp_like(message, '^(the database system is (starting up|shutting down|in recovery mode|not yet accepting connections|not accepting connections)|(LOADING )?(Redis|Valkey) is loading the dataset in memory|MASTERDOWN )') then 'starting'
      when regexp_like(message, '^(OOM )?command not allowed when used memory > ''maxmemory''') then 'memory'
      when regexp_like(message, '^MISCONF (Redis|Valkey) is configured to save ') then 'save'
      when regexp_like(message, '^(CLUSTERDOWN |all shards failed|master_not_discovered_exception)') or regexp_like(text, '^(Caused by: )?org\.(elasticsearch|opensearch)\.[a-z.]+\.(SearchPhaseExecutionException: all shards failed|MasterNotDiscoveredException)|^(Caused by: )?org\.apache\.kafka\.common\.errors\.NotEnoughReplicas') then 'cluster'
      when regexp_like(message, '^An error occurred [(]RequestTimeTooSkewed[)] ') or regexp_like(text, '^([A-Za-z0-9_.:\\]+: )*(\[)?RequestTimeTooSkewed(\]|: )|^([A-Za-z0-9_\\]+Exception: )?Error executing "[A-Za-z]+" on "https?://[^"]*"; AWS HTTP error: Client error: .*RequestTimeTooSkewed [(]client[)]') then 'clock'
      when regexp_like(message, '^(An error occurred [(](SlowDown|ProvisionedThroughputExceededException|ThrottlingException)[)] |\[parent\] Data too large, |\[circuit_breaking_exception\])') or regexp_like(text, '^(Caused by: )?(org\.(elasticsearch|opensearch)\.[a-z.]+\.(CircuitBreakingException|[A-Z][a-z]+RejectedExecutionException): |(elasticsearch[.]|opensearchpy[.])?(ApiError|TransportError)[(:] ?429)') then 'overload'
      when regexp_like(message, '^SERVER_ERROR out of memory storing') then 'memory'
      when regexp_like(message, '^(cluster_block_exception: )?(\[cluster_block_exception\] )?(Reason: )?index \[[^\]]+\] blocked by: \[(TOO_MANY_REQUESTS|FORBIDDEN)/12/') or regexp_like(message, '^(could not (extend|write to|resize|create|open|access) [a-z ]*"[^"]*"( to [0-9]+ bytes)?: No space left on device|The table ''[^'']*'' is full|Error writing file ''[^'']*'' [(](OS )?errno:? 28|Disk full [(])') then 'space'
      when regexp_like(message, '^(could not (read|write|fsync|open|extend)[^:"]*"[^"]*": (read only [0-9]+ of [0-9]+ bytes|Input/output error)|invalid page in block |disk I/O error|database disk image is malformed|unable to open database file|Table ''[^'']*'' is marked as crashed)') then 'storage'
      when regexp_like(message, '^(server closed the connection unexpectedly|terminating connection due to (administrator command|idle-in-transaction timeout|idle-session timeout|conflict with recovery)|SSL connection has been closed unexpectedly|(MySQL s|S)erver has gone away|Lost connection to (MySQL |MariaDB )?server|Connection lost: The server closed the connection|Connection terminated (unexpectedly|due to connection timeout)|Reached the max retries per request limit|Socket closed unexpectedly|The client is closed|Can''t add new command when connection is in closed state|connection already closed|(the )?connection is closed|connection was closed in the middle of operation|consuming input failed: server closed|Error while reading from [^ ]+ ?:? ?[(](10|''Connection closed)|Connection closed by server|PQconsumeInput[(][)] (server closed|SSL )|no connection to the server|An I/O error occurred while sending to the backend|This connection has been closed|driver: bad connection$|invalid connection$|tcp recv( [(]idle[)])?: closed|tcp send: closed)') or text like 'pymysql.err.InterfaceError: (0, %' or program <> 'nginx' and body like '[mysql] %' and regexp_like(message, '^(unexpected EOF|bad connection)$') then 'lost'
      when regexp_like(message, '^(Lock wait timeout exceeded; |Deadlock found when trying to get lock|deadlock detected( [(]SQLSTATE|[)"]*$|[)]:$)|canceling statement due to (lock|statement) timeout|database is locked|Transaction [(]Process ID [0-9]+[)] was deadlocked on |Execution Timeout Expired[.]|WriteConflict|operation exceeded time limit)') then 'lock'
      when regexp_like(message, '^database or disk is full') then 'space'
    end as what
  from answered
),
counted as (
  select host, program, store, what, count(*) as lines, max(substr(body, 1, 160)) as line
  from matched where what is not null
  group by host, program, store, what
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.program as log_program, c.store, c.what, c.lines, c.line, a.requests, a.failed,
  case when c.program in ('nginx', 'apache') or c.program like 'php%' then 'PHP' when c.program = 'other' then 'an application' else c.program end as shown,
  c.what as what_text, c.what as why_text, c.what as fix_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case c.store when 'PostgreSQL' then 'postgresql, pgbouncer' when 'MySQL' then 'mysqld, proxysql' when 'Redis' then 'redis' when 'MongoDB' then 'mongodb' when 'RabbitMQ' then 'rabbitmq' when 'Elasticsearch' then 'elasticsearch' when 'Kafka' then 'kafka' when 'SQLite' then 'sqlite' when 'Memcached' then 'memcached' when 'SQL Server' then 'sql_server' end as database_program,
  case c.store when 'PostgreSQL' then 'postgresql' when 'MySQL' then 'mysqld' when 'Redis' then 'redis' when 'SQLite' then 'sqlite' when 'MongoDB' then 'mongodb' when 'RabbitMQ' then 'rabbitmq' when 'Elasticsearch' then 'elasticsearch' when 'Kafka' then 'kafka' when 'Memcached' then 'memcached' end as service_names,
  case when c.what = 'lock' then 'pg.lock_pileup, mysql.lock_pileup, disk.stuck, disk.slow'
    when c.what in ('lost', 'starting') then 'app.service_unreachable, db.not_answering, db.server_log, mem.oom_kill, firewall.drops_service, wire.host_unreachable'
    when c.what in ('save', 'space', 'readonly') then 'db.server_log, disk.full, disk.inodes_full, disk.readonly'
    when c.what = 'script' then 'redis.blocked, db.server_log' when c.what = 'status' then null
    when c.what = 'clock' then 'clock.skew' when c.what = 'storage' then 'disk.io_error, disk.readonly, disk.full, db.server_log'
    else '' end as explained_by,
  -- What fails at once holds no worker and no connection.
  case when c.what not in ('lock', 'lost', 'starting', 'overload', 'storage', 'cluster', 'script', 'status')
    then 'app.errors, app.errors_quiet, app.requests_stopped, app.workers_die, proxy.bad_gateway, proxy.haproxy_errors, proxy.upstream_errors, slo.burning' end as explains,
  case when c.what in ('rate', 'denied', 'status') and a.requests is null then 'note'
    when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page'
    when c.what = 'lock' and coalesce(a.failed, 0) = 0 or c.what = 'missing_table' and a.requests >= 10 and a.failed = 0 then 'note' else 'mail' end as class
from counted c
left join answers a on a.host = c.host
where c.lines >= 3
  and (c.what not in ('rate', 'denied', 'status') or a.requests is null or a.failed >= 5 and a.failed >= 0.05 * a.requests and c.lines >= 0.2 * a.failed)
