/*---
id = "app.workers_die"
title = "Application workers exit or are killed"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["server"]
prefers = ["mem.oom_kill", "app.segfault", "app.worker_timeout"]
needs = ["log", "request"]
when = """
select 1 from log where (body like '%Worker (pid:%' or body like '%Worker with pid % was terminated due to signal %' or body like '%DAMN ! worker %' or body like '%worker respawning too fast%' or body like '%reaped #<Process::Status: pid %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%JavaScript heap out of memory%' or body like '%Allocation failed%' or body like 'Node.js v%' or body like '%java.lang.OutOfMemoryError%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%Child (%) died signal=%' or body like '%Child (%) not responding to CLI, kill%' or body like '%Current worker %exited with code 1%' or body like '%--- no python application found, check your startup logs%' or body like '%PHP Fatal error: %Allowed memory size of %') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like 'panic: %' or body like 'fatal error: %' or body like '%runtime: out of memory%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%exited on signal %' or body like 'AH0005%child pid % exit signal %' or body like '%Could not spawn process for application %' or body like '%Start request repeated too quickly%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%EADDRINUSE%' or body like '%ddress already in use%' or body like '%Address in use%' or body like 'AH00072: %' or body like '%Connection in use: (%') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.closes_early", "app.crash_loop", "app.down", "app.errors", "app.errors_quiet",
  "app.requests_stopped", "app.throughput_drop", "client.aborts_499", "proxy.bad_gateway",
  "proxy.upstream_errors", "traffic.unusual", "slo.burning",
]
equal = ["process_name"]
subject = "{server} on {host}"
summary = "{server} on {host}: {lines} times in a minute {what_text}{share_text}; it logs \"{line}\""
why = "{why_text} Each request that such a worker served at that moment is lost: its visitor gets 502 or a closed connection. While the worker starts again, there is one fewer."
look_at = "The lines before it in the log of {server}: the last request, a traceback, memory. `dmesg | grep -i -e 'killed process' -e segfault` (mem.oom_kill, app.segfault name the kernel's part). What was deployed last?"
silent_when = "No such line within a minute. A single one while nothing fails is a note; a mail from 3 on, or if requests fail; a page if at least 20 % of the host's requests failed in that minute and it happened twice. Only a program's own message counts, at the start of a line, and none from the log of a web server or sshd but the server's own. Workers that end on purpose (a limit of requests, a reload) write other lines."
fix = "{fix_text} Check: the lines end, and the error rate is back."
source = "gunicorn arbiter.py reap_workers; uWSGI core/master_utils.c; unicorn http_server.rb reap_all_workers; php-fpm fpm_children.c; nginx ngx_process.c; Apache mpm_common.c; V8 api.cc, Node.js node_errors.cc; Go runtime/panic.go; Passenger Core/SpawningKit; Varnish mgt_child.c; HAProxy mworker.c; github.com/varnishcache/varnish-cache #2352; systemd job.c"
[text.what_text]
killed = "a worker was killed"
exited = "a worker exited unexpectedly"
boot = "a worker could not start"
port = "it could not listen: the port is in use"
memory = "its memory limit was reached"
panic = "the process ended by a panic or an uncaught exception"
given_up = "systemd gave up to start it"
[text.why_text]
killed = "A worker ended by a signal: the kernel's out-of-memory killer, a crash in native code, or its own master at a time limit."
exited = "A worker ended without being stopped: an uncaught error, or a call of exit."
boot = "New workers fail while they load the application: an import, a missing variable or file, a database that is needed at start. When the last worker is gone, nothing answers."
port = "Another process listens there, or an outgoing connection of this host has that local port, also while it is in TIME_WAIT: then the service fails to start by chance."
memory = "The heap is full of objects that are in use, so the runtime gives up (Node.js, Go), ends the request (PHP), or throws in whatever code needs memory next (Java: the process runs on, in an unknown state)."
panic = "An error that no code caught ends the whole process with all its requests, not only the one that caused it."
given_up = "It failed as often as `StartLimitBurst` allows, so the service stays down until it is started by hand."
[text.fix_text]
killed = "If it was SIGKILL without a time limit, it is memory: fewer workers, a smaller pool or cache, `max_requests` against a leak, or more memory. If SIGSEGV or SIGABRT: the newest native module or the runtime's version."
exited = "Repair what the traceback before the line names; roll back if it began with a deploy."
boot = "Roll the last deploy back, then start the application by hand as its user, with its environment: the error is on the terminal."
port = "`ss -tanp 'sport = :PORT'` shows who has it. An old process: end it. An outgoing connection: a service's port must lie outside of net.ipv4.ip_local_port_range, or in net.ipv4.ip_local_reserved_ports."
memory = "Find what grows (`node --heapsnapshot-near-heap-limit=2`, `-XX:+HeapDumpOnOutOfMemoryError`, pprof), and restart it in the meantime. Raise the limit (`--max-old-space-size`, `-Xmx`, `GOMEMLIMIT`, PHP `memory_limit`) only if the host and its control group have that memory. Java: `-XX:+ExitOnOutOfMemoryError`, so that it restarts instead of running on."
panic = "Repair what the stack trace names; roll back if it began with a deploy. Let the server catch errors per request (`recover` in a handler, error middleware, `process.on('unhandledRejection')` only to log before it exits)."
given_up = "`journalctl -u {server} -n 50` shows why; repair that, then `systemctl reset-failed {server} && systemctl start {server}`. `RestartSec=5` gives what it needs time to come back."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with own as (
  select host, ts, coalesce(program, '') as program, severity, body, message_template, attrs['module'] as module,
    coalesce(attrs['pool'], regexp_match(body, '^\[[0-9A-Za-z :.-]+\] WARNING: \[pool ([^\]]+)\] ')[1]) as pool, coalesce(program, '') not in ('apache', 'apache2', 'httpd', 'nginx', 'haproxy', 'sshd') as is_application
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (body like '%Worker (pid:%' or body like '%Worker with pid % was terminated due to signal %' or body like '%DAMN ! worker %' or body like '%worker respawning too fast%' or body like '%reaped #<Process::Status: pid %'
      or body like '%JavaScript heap out of memory%' or body like '%Allocation failed%' or body like 'Node.js v%' or body like '%java.lang.OutOfMemoryError%'
      or body like '%Child (%) died signal=%' or body like '%Child (%) not responding to CLI, kill%' or body like '%Current worker %exited with code 1%' or body like '%--- no python application found, check your startup logs%' or body like '%PHP Fatal error: %Allowed memory size of %'
      or body like 'panic: %' or body like 'fatal error: %' or body like '%runtime: out of memory%'
      or body like '%exited on signal %' or body like 'AH0005%child pid % exit signal %' or body like '%Could not spawn process for application %' or body like '%Start request repeated too quickly%'
      or body like '%EADDRINUSE%' or body like '%ddress already in use%' or body like '%Address in use%' or body like 'AH00072: %' or body like '%Connection in use: (%')
),
-- What a visitor wrote may stand anywhere but at the start of a program's own line.
lines as (
  select host, ts, program,
    case
      when program = 'nginx' and regexp_like(message_template, '^worker process [0-9]+ exited on signal [0-9]+') then 'nginx killed'
      when program = 'apache' and coalesce(module, 'core') in ('core', 'mpm_event', 'mpm_worker', 'mpm_prefork') and regexp_like(message_template, '^AH0005[12]: child pid [0-9]+ exit signal ') then 'apache killed'
      when program = 'nginx' and regexp_like(message_template, '^bind\(\) to [^ ]+ failed [(]98: ') then 'nginx port'
      when program = 'apache' and coalesce(module, 'core') in ('core', 'mpm_event', 'mpm_worker', 'mpm_prefork') and regexp_like(message_template, '^[(]98[)][^:]*: AH00072: make_sock: could not bind') then 'apache port'
      when program = 'haproxy' and regexp_like(body, '^(\[[A-Z]+\] +[(][0-9]+[)] : )?Current worker (#[0-9]+ )?[(][0-9]+[)] exited with code 1(34|37|39)') then 'haproxy killed'
      when (program = 'nginx' and message_template like 'FastCGI sent in stderr: %' and regexp_like(body, '^FastCGI sent in stderr: "PHP message: PHP Fatal error: +Allowed memory size of [0-9]+ bytes exhausted') or program = 'apache' and module = 'proxy_fcgi' and regexp_like(body, '^AH01071: Got error ''PHP message: PHP Fatal error: +Allowed memory size of [0-9]+ bytes exhausted') or program = 'apache' and module like 'php%' and severity <> 'notice' and regexp_like(body, '^PHP Fatal error: +Allowed memory size of [0-9]+ bytes exhausted') or is_application and regexp_like(body, '^(\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] )?PHP Fatal error: +Allowed memory size of [0-9]+ bytes exhausted')) then 'php memory'
      when not is_application then null
      when program in ('', 'other', 'varnishd', 'varnish') and regexp_like(body, '^(Error: )?Child [(][0-9]+[)] (died signal=(3|4|6|7|8|9|11)|not responding to CLI, kill(ed|ing) it)') then 'varnish killed'
      when regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?--- no python application found, check your startup logs for errors ---') then 'uwsgi boot'
      when regexp_like(body, '^(\[[0-9-]+ [0-9:]+ [+-][0-9]{4}\] \[[0-9]+\] \[ERROR\] )?Connection in use: [(]') then 'gunicorn port'
      when regexp_like(body, '^(Uncaught )?Error: listen EADDRINUSE') then 'node port'
      when regexp_like(body, '^OSError: \[Errno 98\] [^:]*(Address|address) (already )?in use') then 'python port'
      when regexp_like(body, '^[0-9TZ :.,/+-]*listen tcp [^ ]*: bind: address already in use$') then 'go port'
      when regexp_like(body, '^([A-Za-z:_]+: )?(Errno::EADDRINUSE|Address already in use - bind\(2\))') then 'ruby port'
      when regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?(Worker [(]pid:[0-9]+[)] was sent SIG(KILL|SEGV|ABRT|BUS|ILL)!|Worker with pid [0-9]+ was terminated due to signal (4|6|7|8|9|11)$)') then 'gunicorn killed'
      when regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?Worker [(]pid:[0-9]+[)] exited with code 3') then 'gunicorn boot'
      when regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?Worker [(]pid:[0-9]+[)] exited with code [1-9]') then 'gunicorn exited'
      when regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?DAMN ! worker [0-9]+ [(]pid: [0-9]+[)] died, killed by signal [0-9]+') then 'uwsgi killed'
      when regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?DAMN ! worker [0-9]+ [(]pid: [0-9]+[)] died') then 'uwsgi exited'
      when regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?worker respawning too fast !!!') then 'uwsgi boot'
      when regexp_like(body, '^(E, \[[^\]]*\] ERROR -- : )?reaped #<Process::Status: pid [0-9]+ (SIG[A-Z]+|exit [1-9])') then 'unicorn killed'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] WARNING: \[pool [^\]]+\] )?child [0-9]+ exited on signal [0-9]+ [(]SIG') then 'php-fpm killed'
      when regexp_like(body, '^FATAL ERROR: [A-Za-z_: -]*(Allocation failed|JavaScript heap out of memory)') then 'node memory'
      when regexp_like(body, '^Node\.js v[0-9]+\.[0-9]+\.[0-9]+$') then 'node panic'
      -- A limit of threads, not of memory: app.task_limit.
      when body like '%OutOfMemoryError: unable to create %native thread%' then null
      when regexp_like(body, '^((Caused by: |Exception in thread "[^"]{1,60}" |(Terminating|Aborting) due to )?java\.lang\.OutOfMemoryError(: [A-Za-z ]+)?)') then 'java memory'
      when regexp_like(body, '^fatal error: (runtime: )?(cannot allocate|out of memory)|^runtime: out of memory') then 'go memory'
      when regexp_like(body, '^panic: |^fatal error: (all goroutines are asleep|concurrent map |stack overflow|unexpected signal|sync: )') then 'go panic'
      when regexp_like(body, '^(\[ [EW] [0-9-]+ [0-9:.]+ [^\]]*\]: )?Could not spawn process for application ') then 'passenger boot'
      when program = 'systemd' and regexp_like(body, '^[^ ]+\.service: Start request repeated too quickly\.$') then 'systemd given_up'
    end as kind,
    case when program = 'systemd' then split_part(body, ':', 1) when pool is not null then concat('php-fpm pool ', pool) end as own_name, case when body like '%PHP Fatal error: %' then concat('PHP Fatal error: ', regexp_match(body, '(Allowed memory size of [0-9]+ bytes exhausted)')[1]) else coalesce(message_template, body) end as line
  from own
),
dead as (
  select host, coalesce(own_name, split_part(kind, ' ', 1)) as server, split_part(kind, ' ', 1) as runtime, split_part(kind, ' ', 2) as what, substr(line, 1, 140) as line
  from lines where kind is not null
),
counted as (
  select host, server, max(runtime) as runtime, what, count(*) as lines, max(line) as line,
    sum(count(*)) over (partition by host, server) as all_lines,
    row_number() over (partition by host, server order by case what when 'given_up' then 0 when 'port' then 1 when 'memory' then 1 when 'boot' then 2 else 3 end, count(*) desc, what) as place
  from dead group by host, server, what
),
answers as (
  select host, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or termination_state like 's%' or termination_state like 'S%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select k.host, k.server, k.line, k.lines, a.requests, a.failed,
  case k.runtime when 'gunicorn' then 'gunicorn, python3, python' when 'uwsgi' then 'uwsgi, uwsgi-core' when 'unicorn' then 'ruby, unicorn' when 'node' then 'node, MainThread'
    when 'java' then 'java' when 'python' then 'python3, python' when 'nginx' then 'nginx' when 'apache' then 'apache2, httpd' when 'haproxy' then 'haproxy' when 'varnish' then 'varnishd, cache-main' end as process_name,
  case when k.runtime in ('nginx', 'apache', 'haproxy', 'varnish') then 'proxy' else 'app' end as tier,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' else 'panic' end as what_text,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' else 'panic' end as why_text,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' else 'panic' end as fix_text,
  -- Neither a time limit nor a service that is away fills a heap or takes a port.
  case when k.what in ('memory', 'port') then 'app.service_unreachable, app.worker_timeout' when k.what = 'killed' then 'app.service_unreachable' end as not_explained_by,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests and k.all_lines >= 2 then 'page'
    when k.all_lines >= 3 or a.failed > 0 or k.what in ('given_up', 'port') then 'mail' else 'note' end as class
from counted k
left join answers a on a.host = k.host
where k.place = 1
