/*---
id = "app.workers_exhausted"
title = "All workers of a server are busy"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["busy_server"]
prefers = ["pg.lock_pileup", "db.not_answering", "db.connections_exhausted", "app.blocked_on_store", "dns.resolver_slow", "app.worker_timeout", "cpu.cgroup_throttled", "disk.stuck", "disk.slow", "mem.thrash"]
needs = ["log", "request", "config_directive", "tcp_wait"]
when = """
select 1 from log where body like '%server reached %max_children setting (%' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like '%*** uWSGI listen queue of socket % full !!! (%' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like 'AH%: server reached MaxRequestWorkers setting%' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like 'AH%: scoreboard is full, %' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like '%All threads (%) are currently busy, waiting. Increase maxThreads%' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like '%Maximum number of threads (%) created for connector%' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where body like '%due to: Request queue full (configured max. size: %' and ts > $now - interval '2 minutes' and ts <= $now
union all select 1 from log where (body like '%RejectedExecutionException%' or body like '%Task queue depth is %' or body like '%Exceeded concurrency limit%' or body like '%] rejected org.eclipse.jetty%' or body like '%LimitLatch%Maximum number of connections reached%' or body like '%thread pool starvation%' or body like '%Heartbeat took longer than %' or body like '%has been blocked for % ms, time limit is %' or body like '%may be stuck (configured threshold%' or body like '%sockets disabled, %' or body like '%backend is overloaded; %' or body like '%Unable to connect to WSGI daemon process%' or body like '%can''t apply process slot for %' or body like '%spawning error occurred%' or body like '%reached the configured maximum connection limit%' or body like '%Too many open connections%' or body like '%Low Resources: %') and ts > $now - interval '2 minutes' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.health_digest_missing", "app.requests_stopped", "app.slow",
  "app.slow_quiet", "app.socket_backlog_full", "app.throughput_drop", "client.aborts_499",
  "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_queue", "proxy.haproxy_slow",
  "proxy.no_live_upstreams", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "traffic.unusual", "unix.accept_queue_full", "slo.burning",
  "proxy.upstream_hangs",
]
subject = "{server} on {host}"
summary = "{server} on {host}: all workers are busy; it logs \"{line}\"{times_text}{share_text}{wait_note}"
why = "Each worker serves one request at a time (Apache's event MPM: one that is being worked on). When all are busy, new requests wait in the listen queue, and beyond it they are dropped or get 502. Either requests have become slow, so that each holds its worker for longer, or there are more of them than the limit was made for."
look_at = "What the workers do: Apache `apachectl fullstatus` (W for busy, R for clients that send slowly), php-fpm's status page and slow log, `uwsgitop`, a thread dump of Tomcat. Requests per second times seconds per request is the number of workers needed. Is CPU or memory used up? Then more workers make it worse."
silent_when = "No such line within 2 minutes. php-fpm and Apache write it once when the limit is reached, not while it lasts; php-fpm with `pm = static` never does, and its `seems busy` is no limit. Passenger's lines count in its own log (`passenger_log_file`), and in nginx's or Apache's where no visitor can have written them. Apache's early warning (AH10159, within MinSpareThreads) is not counted. It is a page if at least 20 % of the host's requests failed in the last minute."
fix = "{fix_text} Check: the line does not come back and response times are as before."
source = "php-fpm fpm_process_ctl.c; Apache mpm event.c, worker.c, prefork.c (AH00484, AH00286, AH00161); uWSGI core/master_checks.c; Tomcat ThreadPool, JIoEndpoint; Passenger CheckoutSession.cpp"
[text.share_text]
known = "; {failed} of {requests} requests failed in the last minute"
unknown = ""
[text.times_text]
once = ""
more = " ({lines} times in 2 minutes)"
[text.where_text]
known = "{file}:{config_line} has {setting}. "
unknown = ""
[text.fix_text]
fpm = "First find what makes requests slow (`request_slowlog_timeout = 2s` shows where). If CPU is free and memory suffices (children × their size), raise `pm.max_children` of that pool and reload php-fpm."
apache = "{where_text}First find what makes requests slow or clients linger (`KeepAliveTimeout 2`, `RequestReadTimeout header=10`). If CPU is free and memory suffices, raise MaxRequestWorkers (with ServerLimit × ThreadsPerChild at least as large) and restart Apache."
uwsgi = "First find what makes requests slow (`--harakiri 30` with `--py-tracebacker`). If CPU is free, raise `processes` or `threads`; `listen = 1024` with net.core.somaxconn carries bursts."
java = "First take a thread dump (`jstack PID`): the pool's threads are all busy and its queue is full. Find what they wait for; then bound the work that comes in, and only then raise the pool (Jetty: `jetty.threadPool.maxThreads`)."
passenger = "First see what the processes do (`passenger-status --show=requests`, `passenger-status`: \"Last used\" of hours means a stuck process; end it). If CPU and memory suffice, raise `passenger_max_pool_size`; `passenger_max_request_queue_size` only for short bursts."
connections = "First find what holds the connections: slow requests, clients that linger (keep-alive, slow senders). If CPU and memory are free, raise the limit: HAProxy `maxconn` in `global`, lighttpd `server.max-connections` with `server.max-fds`, mod_wsgi `processes`/`threads` and `listen-backlog`, mod_fcgid `FcgidMaxProcesses`, memcached `-c`."
loop = "First find what blocks or is slow: blocking calls on an event loop or in async code (a dump of the threads, `py-spy dump`, `dotnet-stack report`), a database pool. Then more threads or processes (waitress `threads`, uvicorn `--limit-concurrency` and `--workers`, .NET `ThreadPool.SetMinThreads` only to win time)."
tomcat = "First take a thread dump (`jstack PID`) and find what the threads wait for: most often the database pool. If CPU is free, raise maxThreads of the connector."
---*/
with lines as (
  select host, ts,
    case when body like 'AH%' then 'apache'
         when body like '%max_children setting (%' then concat_ws(' ', 'php-fpm', case when coalesce(attrs['pool'], regexp_match(body, '\[pool ([^\]]+)\]')[1]) is not null then concat('pool ', coalesce(attrs['pool'], regexp_match(body, '\[pool ([^\]]+)\]')[1])) end)
         when body like '%uWSGI%' then concat('uwsgi ', coalesce(regexp_match(body, 'of socket "([^"]+)"')[1], ''))
         when body like '%Request queue full%' then 'passenger' when body like '%RejectedExecutionException%' then 'a Java thread pool'
         when body like '%Task queue depth is %' then 'waitress' when body like '%Exceeded concurrency limit%' then 'uvicorn' when body like '%jetty%' or body like '%Low Resources: %' then 'jetty' when body like '%starvation%' or body like '%Heartbeat took longer than %' then 'kestrel'
         when body like '%has been blocked for %' then 'an event loop of Vert.x' when body like '%mod_wsgi%' then 'mod_wsgi' when body like '%mod_fcgid%' then 'mod_fcgid' when program = 'haproxy' then 'haproxy'
         when body like '%sockets disabled%' or body like '%backend is overloaded%' then 'lighttpd' when body like '%Too many open connections%' then 'memcached' else 'tomcat' end as server,
    case when body like 'AH%' then 'apache' when body like '%max_children setting (%' then 'fpm' when body like '%uWSGI%' then 'uwsgi'
      when body like '%Request queue full%' then 'passenger' when body like '%RejectedExecutionException%' or body like '%jetty%' or body like '%Low Resources: %' then 'java'
      when program in ('haproxy', 'apache') or body like '%sockets disabled%' or body like '%backend is overloaded%' or body like '%Too many open connections%' then 'connections' when body like '%Task queue depth is %' or body like '%Exceeded concurrency limit%' or body like '%starvation%' or body like '%Heartbeat took longer than %' or body like '%has been blocked for %' then 'loop' else 'tomcat' end as kind,
    coalesce(regexp_match(body, '(server reached [^,]+)')[1], regexp_match(body, '(uWSGI listen queue .*[)])')[1], regexp_match(body, '(scoreboard is full, [^,.]+)')[1], regexp_match(body, '(All threads [^.]+)')[1], regexp_match(body, '(Maximum number of threads [(][0-9]+[)] created)')[1], regexp_match(body, '(Request queue full [(][^)]+[)])')[1],
      regexp_match(body, '(Task queue depth is [0-9]+|Exceeded concurrency limit|heartbeat has been running for "[0-9:.]+"|Heartbeat took longer than "[0-9:.]+"|has been blocked for [0-9]+ ms, time limit is [0-9]+ ms|Maximum number of connections reached|has been active for \[[0-9,]+\] milliseconds|sockets disabled, [a-z -]+|backend is overloaded|Unable to connect to WSGI daemon process|can''t apply process slot|reached the configured maximum connection limit|Too many open connections|Low Resources: [A-Za-z ]+)')[1], case when body like '%jetty%' then 'QueuedThreadPool rejected a task' end, 'RejectedExecutionException') as line
  from log
  where ts > $now - interval '2 minutes' and ts <= $now
    -- An application's message may stand in a web server's log, with a visitor's text in it.
    and (coalesce(program, '') not in ('apache', 'apache2', 'httpd', 'nginx', 'haproxy', 'sshd')
      and (regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] WARNING: (\[pool [^\]]+\] )?)?server reached (pm[.])?max_children setting [(][0-9]+[)]')
      or regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?[*]{3} uWSGI listen queue of socket "[^"]*" [(]fd: [0-9]+[)] full !!!')
      or regexp_like(body, '^(Caused by: |Exception in thread "[^"]{1,60}" )?java\.util\.concurrent\.RejectedExecutionException(: |$)')
      or regexp_like(body, '^((INFO|WARNING|SEVERE): )?(Maximum number of threads [(][0-9]+[)] created for connector with address |All threads [(][0-9]+[)] are currently busy, waiting[.] Increase maxThreads )')
      or regexp_like(body, '^(\[ [EW]? ?[0-9-]+ [0-9:.]+ [^\]]*\]: )?\[Client [0-9]+-[0-9]+\] Returning HTTP [0-9]{3} due to: Request queue full [(]configured max[.] size: '))
      or coalesce(program, '') not in ('apache', 'apache2', 'httpd', 'nginx', 'haproxy', 'sshd')
        and regexp_like(body, '^([0-9-]+ [0-9:,]+ )?WARNING:? *(waitress[.]queue:|\[waitress[.]queue(:[0-9]+)?\](\[[A-Za-z0-9_-]+\])? |waitress[.]queue )?Task queue depth is ([1-9][0-9]+)$|^[0-9-]+ [0-9:.]+ \| WARNING +\| waitress[.]task:add_task:[0-9]+ - Task queue depth is ([1-9][0-9]+)$|^WARNING: +Exceeded concurrency limit[.]$|^[0-9-]+ [0-9:.]+:WARN:oejut[.]QueuedThreadPool:[A-Za-z0-9-]+: QueuedThreadPool\[.*\] rejected org[.]eclipse[.]jetty|^[0-9-]+ [0-9:.]+:WARN:[a-z]+[.]LowResourceMonitor:[A-Za-z0-9-]+: Low Resources: |^([0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+ (INFO|WARNING) \[[^\]]+\] )?(org\.apache\.tomcat\.util\.threads\.LimitLatch[.A-Za-z]* )?Maximum number of connections reached|^([0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+ WARNING \[[^\]]+\] )?(org\.apache\.catalina\.valves\.StuckThreadDetectionValve[.A-Za-z]* )?Thread \[[^\]]+\] [(]id=\[[0-9]+\][)] has been active for |^ *((\[[0-9:]+\] )?(\[[A-Z]{3}\] )?(\[[0-9]+\] )?Microsoft[.]AspNetCore[.]Server[.]Kestrel: )?(As of "[^"]{1,40}", the heartbeat has been running for "[0-9:.]+" which is longer than |Heartbeat took longer than "[0-9:.]+" at )|^(WARNING: |[0-9-]+ [0-9:.,]+ WARN [^ ]+ .*)?Thread Thread\[[^\]]+\] has been blocked for [0-9]+ ms, time limit is |^[0-9-]+ [0-9:]+: [(][a-z_]+[.]c[.][0-9]+[)] (\[[a-z]+\] )?(sockets disabled, (connection limit reached|out-of-fds)|backend is overloaded; )|^Too many open connections$')
      or program = 'apache' and attrs['module'] = 'wsgi' and attrs['system_error'] like '(11)%' and regexp_like(body, '^mod_wsgi( [(]pid=[0-9]+[)])?: Unable to connect to WSGI daemon process ')
      or program = 'apache' and coalesce(attrs['module'], 'fcgid') = 'fcgid' and body like 'mod_fcgid: can''t apply process slot for %'
      or program = 'haproxy' and regexp_like(message_template, '^Proxy [^ ]+ reached the configured maximum connection limit')
      or program = 'apache' and coalesce(attrs['module'], 'mpm') like 'mpm%' and regexp_like(body, '^AH[0-9]+: (server reached MaxRequestWorkers setting|scoreboard is full, )')
      or program = 'tomcat' and (body like '%All threads (%) are currently busy, waiting. Increase maxThreads%' or regexp_like(body, '^(.{0,80}JIoEndpoint.{0,40} )?Maximum number of threads [(][0-9]+[)] created for connector with address ')))
),
busy as (
  select host, server, kind, max(line) as line, count(*) as lines from lines group by host, server, kind
),
answers as (
  select host, count(*) as requests,
    count(*) filter (where http_response_status_code in (502, 503, 504) or termination_state like 's%' or termination_state like 'S%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
hanging as (
  -- What the program itself waits for.
  select host as hanging_host, process_name as hanging_process,
    last_value(concat('; ', waiting, ' of its ', connections, ' connections to ', case when server_address like '%:%' then concat('[', server_address, ']') else server_address end, ':', server_port, ' wait for a response') order by waiting, ts) as wait_note
  from tcp_wait
  where side = 'client' and longest_seconds >= 2 and waiting >= 3 and 2 * waiting >= connections and ts > $now - interval '20 seconds' and ts <= $now
  group by host, process_name
),
config as (
  select host, file, line, concat(directive, ' ', arguments) as setting, row_number() over (partition by host order by ts desc, file, line desc) as place
  from config_directive
  where ts > $now - interval '2 hours' and ts <= $now and program = 'apache' and lower(directive) in ('maxrequestworkers', 'maxclients')
)
select b.host, b.server, b.server as busy_server, coalesce(h.wait_note, '') as wait_note, b.line, b.lines, a.requests, a.failed, c.file, c.line as config_line, c.setting,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when b.lines > 1 then 'more' else 'once' end as times_text,
  case when c.file is not null then 'known' else 'unknown' end as where_text,
  case b.kind when 'apache' then 'apache' when 'fpm' then 'fpm' when 'uwsgi' then 'uwsgi' when 'java' then 'java' when 'passenger' then 'passenger' when 'connections' then 'connections' when 'loop' then 'loop' else 'tomcat' end as fix_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page' else 'mail' end as class
from busy b
left join answers a on a.host = b.host
left join hanging h on h.hanging_host = b.host
  and (starts_with(h.hanging_process, split_part(b.server, ' ', 1)) or b.kind = 'apache' and h.hanging_process = 'httpd')
left join config c on c.host = b.host and c.place = 1 and b.kind = 'apache'
-- One pause of an event loop or one long request is a start, a collection of garbage or a report.
where b.kind <> 'loop' and b.line not like 'has been active%' or b.lines >= 3 or a.failed >= 0.05 * a.requests
