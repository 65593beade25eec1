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
union all select 1 from log where (body like '%EADDRINUSE%' or body like '%ddress already in use%' or body like '%Address in use%' or body like 'AH00072: %' or body like '%Connection in use: (%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%App [%exited with code [%' or body like '%unstable restarts%' or body like '%max-memory-restart%' or body like '# A fatal error has been detected%' or body like '# There is insufficient memory%' or body like '%os::commit_memory(%failed%' or body like '%OutOfDirectMemoryError%' or body like '# Fatal JavaScript%' or body like '%ENOMEM%' or body like 'Unhandled exception. %' or body like 'Out of memory.%' or body like 'Stack overflow.%' or body like 'System.OutOfMemoryException%' or body like '%Failed to bind to address %' or body like 'Crash dump is being written%' or body like '%Cannot allocate %' or body like 'Kernel pid terminated%' or body like '%panicked at %' or body like 'memory allocation of %' or body like 'terminate called%' or body like '%ouble free or corruption%' or body like '%malloc(%' or body like 'free(): %' or body like '*** stack smashing%' or body like 'Segmentation fault%' or body like '%NoMemoryError%' or body like '%[BUG] Segmentation fault%' or body like 'MemoryError%' or body like '%annot allocate memory%' or attrs['system_error'] like '(12)%' or body like '%exited with ''signal %' or body like '%WorkerLostError: %' or body like '%Child process [%] died%' or body like '%Worker failed to boot%' or body like '%Exception in worker process%' or body like '%Can''t connect to (%' or body like '%while attempting to bind on address%' or body like '%another instance of uWSGI%' or body like '%unable to bind listening socket%' or body like '%FPM initialization failed%' or body like '%failed to post process the configuration%' or body like '%failed processes threshold%' or body like '%PHP Fatal error: %Out of memory (allocated %' or body like '%Web server failed to start.%' or body like '%Application run failed%' or body like '%Failed to initialize connector%' or body like '%startup failed due to previous errors%' or body like '%child % exited with code %' or body like 'worker process % exited with fatal code%' or body like '%: panic serving %' or body like '%) Panic at: %' or body like '%Caught Segmentation fault%' or body like '%Main process exited, code=%' or body like '%result ''oom-kill''%' or body like '%killed by the OOM killer%' or body like '%Watchdog timeout (%' or body like '%start operation timed out%' or body like '%restart counter is at %' or body like '%Failed at step %' or body like 'Killed % due to memory pressure %' or body like '%CrashLoopBackOff%' or body like '%ImagePullBackOff%' or body like '%"Probe failed"%' or body like '%failed programming external connectivity%' or body like '%Target WSGI script %') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.closes_early", "app.crash_loop", "app.down", "app.errors", "app.errors_quiet",
  "app.requests_stopped", "app.throughput_drop", "client.aborts_499", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.upstream_errors", "traffic.unusual", "slo.burning",
]
equal = ["process_name"]
subject = "{server} on {host}"
summary = "{server} on {host}: {lines} times in a minute {what_text}{share_text}; it logs \"{line}\""
why = "{why_text} Each request that such a worker served at that moment is lost: its visitor gets 502 or a closed connection. While the worker starts again, there is one fewer."
look_at = "The lines before it in the log of {server}: the last request, a traceback, memory. `dmesg | grep -i -e 'killed process' -e segfault` (mem.oom_kill, app.segfault name the kernel's part). What was deployed last?"
silent_when = "No such line within a minute. A single one while nothing fails is a note; a mail from 3 on, or if requests fail; a page if at least 20 % of the host's requests failed in that minute and it happened twice. Failed probes and images of Kubernetes are a note while less than 2 % of the requests fail (a roll-out). Only a program's own message counts, at the start of a line, and none from the log of a web server or sshd but the server's own. Workers that end on purpose (a limit of requests, a reload) write other lines."
fix = "{fix_text} Check: the lines end, and the error rate is back."
source = "gunicorn arbiter.py reap_workers; uWSGI core/master_utils.c; unicorn http_server.rb reap_all_workers; php-fpm fpm_children.c; nginx ngx_process.c; Apache mpm_common.c; V8 api.cc, Node.js node_errors.cc; Go runtime/panic.go; Passenger Core/SpawningKit; Varnish mgt_child.c; HAProxy mworker.c; github.com/varnishcache/varnish-cache #2352; systemd job.c"
[text.what_text]
killed = "a worker was killed"
exited = "a worker exited unexpectedly"
boot = "a worker could not start"
port = "it could not listen: the port is in use"
memory = "its memory limit was reached"
panic = "the process ended by a panic or an uncaught exception"
given_up = "its supervisor gave up to start it"
restarts = "it is restarted repeatedly"
aborted = "requests end in a panic of their handler"
probe = "its health checks fail"
[text.why_text]
killed = "A worker ended by a signal: the kernel's out-of-memory killer, a crash in native code, or its own master at a time limit."
exited = "A worker ended without being stopped: an uncaught error, or a call of exit."
boot = "New workers fail while they load the application: an import, a missing variable or file, a database that is needed at start. When the last worker is gone, nothing answers."
port = "Another process listens there, or an outgoing connection of this host has that local port, also while it is in TIME_WAIT: then the service fails to start by chance."
memory = "The heap is full of objects that are in use, so the runtime gives up (Node.js, Go), ends the request (PHP), or throws in whatever code needs memory next (Java: the process runs on, in an unknown state)."
panic = "An error that no code caught ends the whole process with all its requests, not only the one that caused it."
given_up = "It failed as often as its supervisor allows (systemd: `StartLimitBurst`, pm2: `max_restarts`), so the service stays down until it is started by hand."
restarts = "It ends soon after each start, and is started again: between both nothing answers, and caches never get warm."
aborted = "The handler of a request panicked; its visitor gets an error or a closed connection, the process survives. A lock that it held may stay locked."
probe = "Kubernetes takes a container that is not ready out of its service, and restarts one that is not alive: under load this makes an overload worse."
[text.fix_text]
killed = "If it was SIGKILL without a time limit, it is memory: fewer workers, a smaller pool or cache, `max_requests` against a leak, or more memory. If SIGSEGV or SIGABRT: the newest native module or the runtime's version."
exited = "Repair what the traceback before the line names; roll back if it began with a deploy."
boot = "Roll the last deploy back, then start the application by hand as its user, with its environment: the error is on the terminal."
port = "`ss -tanp 'sport = :PORT'` shows who has it. An old process: end it. An outgoing connection: a service's port must lie outside of net.ipv4.ip_local_port_range, or in net.ipv4.ip_local_reserved_ports."
memory = "Find what grows (`node --heapsnapshot-near-heap-limit=2`, `-XX:+HeapDumpOnOutOfMemoryError`, pprof), and restart it in the meantime. Raise the limit (`--max-old-space-size`, `-Xmx`, `GOMEMLIMIT`, PHP `memory_limit`) only if the host and its control group have that memory. Java: `-XX:+ExitOnOutOfMemoryError`, so that it restarts instead of running on."
panic = "Repair what the stack trace names; roll back if it began with a deploy. Let the server catch errors per request (`recover` in a handler, error middleware, `process.on('unhandledRejection')` only to log before it exits)."
restarts = "The first error after a start names it: `journalctl -u {server} -n 50`, in Kubernetes `kubectl logs --previous`. Roll back if it began with a deploy; a limit of memory or a liveness check that is too strict looks the same."
aborted = "Repair what the stack trace names; roll back if it began with a deploy."
probe = "`curl` the path of the check from the node. If it waits for the database or for busy workers, the cause is there: limit the liveness check to the process, with a longer timeout."
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
      or body like '%EADDRINUSE%' or body like '%ddress already in use%' or body like '%Address in use%' or body like 'AH00072: %' or body like '%Connection in use: (%'
      or body like '%App [%exited with code [%' or body like '%unstable restarts%' or body like '%max-memory-restart%' or body like '# A fatal error has been detected%' or body like '# There is insufficient memory%' or body like '%os::commit_memory(%failed%' or body like '%OutOfDirectMemoryError%' or body like '# Fatal JavaScript%' or body like '%ENOMEM%'
      or body like 'Unhandled exception. %' or body like 'Out of memory.%' or body like 'Stack overflow.%' or body like 'System.OutOfMemoryException%' or body like '%Failed to bind to address %' or body like 'Crash dump is being written%' or body like '%Cannot allocate %' or body like 'Kernel pid terminated%' or body like '%panicked at %' or body like 'memory allocation of %' or body like 'terminate called%' or body like '%ouble free or corruption%' or body like '%malloc(%' or body like 'free(): %' or body like '*** stack smashing%' or body like 'Segmentation fault%'
      or body like '%NoMemoryError%' or body like '%[BUG] Segmentation fault%' or body like 'MemoryError%' or body like '%annot allocate memory%' or attrs['system_error'] like '(12)%' or body like '%exited with ''signal %' or body like '%WorkerLostError: %' or body like '%Child process [%] died%' or body like '%Worker failed to boot%' or body like '%Exception in worker process%' or body like '%Can''t connect to (%' or body like '%while attempting to bind on address%' or body like '%another instance of uWSGI%' or body like '%unable to bind listening socket%' or body like '%FPM initialization failed%' or body like '%failed to post process the configuration%' or body like '%failed processes threshold%' or body like '%PHP Fatal error: %Out of memory (allocated %'
      or body like '%Web server failed to start.%' or body like '%Application run failed%' or body like '%Failed to initialize connector%' or body like '%startup failed due to previous errors%' or body like '%child % exited with code %' or body like 'worker process % exited with fatal code%' or body like '%: panic serving %' or body like '%) Panic at: %' or body like '%Caught Segmentation fault%' or body like '%Main process exited, code=%' or body like '%result ''oom-kill''%' or body like '%killed by the OOM killer%' or body like '%Watchdog timeout (%' or body like '%start operation timed out%' or body like '%restart counter is at %' or body like '%Failed at step %' or body like 'Killed % due to memory pressure %' or body like '%CrashLoopBackOff%' or body like '%ImagePullBackOff%' or body like '%"Probe failed"%' or body like '%failed programming external connectivity%' or body like '%Target WSGI script %')
    and coalesce(severity, '') not in ('debug', 'trace')
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
      when program = 'nginx' and regexp_like(message_template, '^worker process [0-9]+ exited with fatal code [0-9]+ and cannot be respawned') then 'nginx given_up'
      when program = 'nginx' and regexp_like(message_template, '^(malloc|posix_memalign|mmap)[(][0-9A-Z_, |]+[)] failed [(]12: ') then 'nginx memory'
      when program = 'apache' and coalesce(module, 'core') in ('core', 'mpm_event', 'mpm_worker', 'mpm_prefork') and regexp_like(message_template, '^[(]12[)][^:]*: AH(00159|03142|00281|00282)') then 'apache memory'
      when program = 'apache' and module = 'wsgi' and regexp_like(body, '^mod_wsgi( [(]pid=[0-9]+[)])?: Target WSGI script ''[^'']+'' (cannot be loaded as Python module|does not contain WSGI application)') then 'mod_wsgi boot'
      when not is_application then null
      when program in ('', 'other', 'varnishd', 'varnish') and regexp_like(body, '^(Error: )?Child [(][0-9]+[)] Panic at: ') then 'varnish killed'
      when program in ('', 'other', 'envoy') and regexp_like(body, '^(\[[0-9-]+ [0-9:.]+\]\[[0-9]+\]\[critical\]\[backtrace\] (\[[^\]]+\] )?)?Caught Segmentation fault, ') then 'envoy killed'
      when program = 'systemd' and regexp_like(body, '^[^ ]+\.service: (Main process exited, code=(dumped, status=[0-9]+/[A-Z]+|killed, status=(4|6|7|8|9|11)/[A-Z]+)|Watchdog timeout [(]limit |A process of this unit has been killed by the OOM killer|Failed with result ''oom-kill'')') then 'systemd killed'
      when program = 'systemd' and regexp_like(body, '^[^ ]+\.service: (Failed at step [A-Z]+ spawning |Main process exited, code=exited, status=2[0-9][0-9]/[A-Z]+|start operation timed out[.])') then 'systemd boot'
      when program = 'systemd' and regexp_like(body, '^[^ ]+\.service: Scheduled restart job, restart counter is at ([3-9]|[0-9]{2,})[.]$') then 'systemd restarts'
      -- 129 to 255 is an end by a signal, such as 143 after a stop.
      when program = 'systemd' and regexp_like(body, '^[^ ]+\.service: Main process exited, code=exited, status=([1-9]|[1-9][0-9]|1[01][0-9]|12[0-8])/') then 'systemd exited'
      when program = 'systemd-oomd' and regexp_like(body, '^Killed [^ ]+ due to memory pressure ') then 'systemd-oomd killed'
      when program = 'kubelet' and regexp_like(body, '^"?Error syncing pod.* ?(err=")?failed to \W+StartContainer\W+ for \W+[A-Za-z0-9._-]+\W+ with CrashLoopBackOff: ') then 'container restarts'
      when program = 'kubelet' and regexp_like(body, '^"?Error syncing pod.* ?(err=")?failed to \W+StartContainer\W+ for \W+[A-Za-z0-9._-]+\W+ with (ImagePullBackOff|ErrImagePull|CreateContainerConfigError): ') then 'container boot'
      when program = 'kubelet' and regexp_like(body, '^"Probe failed" probeType="(Liveness|Readiness)" ') then 'container probe'
      when program = 'dockerd' and regexp_like(body, '^Handler for POST [^ ]+ returned error: driver failed programming external connectivity on endpoint .*(address already in use|port is already allocated)$') then 'container port'
      when regexp_like(body, '^(PM2 +[|] )?(\[?[0-9T:.Z -]+\]?:? )?(PM2 log: )?(App \[[^\]]+\]( with id \[[0-9]+\] and pid \[[0-9]+\],)? exited with code \[[0-9]+\] via signal \[SIG(KILL|SEGV|ABRT)\])') then 'node killed'
      when regexp_like(body, '^(PM2 +[|] )?(\[?[0-9T:.Z -]+\]?:? )?(PM2 log: )?(App \[[^\]]+\]( with id \[[0-9]+\] and pid \[[0-9]+\],)? exited with code \[[1-9][0-9]*\])') then 'node exited'
      when regexp_like(body, '^(PM2 +[|] |PM2: )?(\[?[0-9T:.Z -]+\]?:? )?(PM2 (log|error): )?Script [^ ]+ had too many unstable restarts ') then 'node given_up'
      when regexp_like(body, '^(PM2 +[|] )?(\[?[0-9T:.Z -]+\]?:? )?(PM2 log: )?\[PM2\]\[WORKER\] Process [0-9]+ restarted because it exceeds --max-memory-restart') or regexp_like(body, '^# Fatal JavaScript out of memory: |^(Uncaught )?Error: spawn ENOMEM') then 'node memory'
      when regexp_like(body, '^# A fatal error has been detected by the Java Runtime Environment:') then 'java killed'
      when regexp_like(body, '^# There is insufficient memory for the Java Runtime|^(OpenJDK|Java HotSpot[(]TM[)]) [A-Za-z0-9 -]*VM warning: INFO: os::commit_memory[(][^)]*[)] failed; |^(Caused by: )?io\.netty\.util\.internal\.OutOfDirectMemoryError: ') then 'java memory'
      when regexp_like(body, '^Web server failed to start[.] Port [0-9]+ was already in use[.]') then 'java port'
      when regexp_like(body, '^([0-9TZ:., +-]+ERROR +[0-9]+ --- (\[[^\]]+\] ){1,2}[A-Za-z0-9_.$]*SpringApplication +: )Application run failed') or regexp_like(body, '^([0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+ SEVERE \[[^\]]+\] )?(org\.apache\.catalina\.[A-Za-z.]+ )?(Failed to initialize connector \[|Context \[[^\]]*\] startup failed due to previous errors)') then 'java boot'
      when regexp_like(body, '^Unhandled exception[.] [A-Z][A-Za-z]*([.][A-Za-z]+)+|^Stack overflow[.]$') then 'dotnet panic'
      when regexp_like(body, '^Out of memory[.]$|^System\.OutOfMemoryException: ') then 'dotnet memory'
      when regexp_like(body, '^(Unhandled exception[.] )?System\.IO\.IOException: Failed to bind to address ') then 'dotnet port'
      when regexp_like(body, '^Crash dump is being written to: ') then 'erlang panic'
      when regexp_like(body, '^[a-z]*_?alloc: Cannot (re)?allocate [0-9]+ bytes of memory') then 'erlang memory'
      when regexp_like(body, '^(\{"|")?Kernel pid terminated [(](application_controller|init)[)]') then 'erlang boot'
      when regexp_like(body, '^memory allocation of [0-9]+ bytes failed') then 'rust memory'
      when regexp_like(body, '^thread ''main'' panicked at ') then 'rust panic'
      when regexp_like(body, '^thread ''[^'']{1,60}'' panicked at ') then 'rust aborted'
      when regexp_like(body, '^([0-9/]+ [0-9:.]+ )?http: panic serving [0-9a-fA-F.:\[\]]+: ') then 'go aborted'
      when regexp_like(body, '^terminate called after throwing an instance of ''std::bad_alloc''') then 'native memory'
      when regexp_like(body, '^(terminate called (after throwing an instance of|without an active exception)|([a-z_]+[(][)]: )?(double free or corruption|corrupted |invalid pointer|invalid next size|unaligned |unsorted double linked list)|(malloc|free|realloc)[(][)]: |[*]{3} stack smashing detected [*]{3}|Segmentation fault( [(]core dumped[)])?$|[^ ]+[.]rb:[0-9]+: \[BUG\] Segmentation fault)') then 'native killed'
      when regexp_like(body, '^NoMemoryError [(]failed to allocate memory[)]|^(Uncaught )?NoMemoryError: failed to allocate') then 'ruby memory'
      when regexp_like(body, '^[^ ]+[.]rb:[0-9]+:in [`''][^'']+'': Address already in use - bind\(2\)') then 'ruby port'
      when regexp_like(body, '^MemoryError(: |$)|^OSError: \[Errno 12\] Cannot allocate memory') then 'python memory'
      when regexp_like(body, '^(\[[0-9 :,-]+: ERROR/MainProcess\] )?Process ''[A-Za-z]*Worker-[0-9:]+'' pid:[0-9]+ exited with ''signal |^billiard[.]exceptions[.]WorkerLostError: Worker exited prematurely: signal ') then 'celery killed'
      when regexp_like(body, '^(INFO|ERROR|WARNING)?:? *Child process \[[0-9]+\] died') then 'uvicorn killed'
      when regexp_like(body, '^(ERROR: +)?\[Errno 98\] error while attempting to bind on address ') then 'uvicorn port'
      when regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?(Worker failed to boot[.]|Exception in worker process)|^gunicorn[.]errors[.]HaltServer: ') then 'gunicorn boot'
      when regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?Can''t connect to [(]''') then 'gunicorn port'
      when regexp_like(body, '^probably another instance of uWSGI is running on the same address') then 'uwsgi port'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] ERROR: )?(\[pool [^\]]+\] )?unable to bind listening socket for address ''[^'']*'': Address already in use') then 'php-fpm port'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] ERROR: )?(FPM initialization failed|failed to post process the configuration|unable to bind listening socket )') then 'php-fpm boot'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] (ERROR|WARNING): )?failed processes threshold [(]') then 'php-fpm killed'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] ERROR: )?(\[pool [^\]]+\] )?fork[(][)] failed: Cannot allocate memory') then 'php-fpm memory'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] WARNING: \[pool [^\]]+\] )?child [0-9]+ exited with code [1-9][0-9]* after ') then 'php-fpm exited'
      when regexp_like(body, '^(\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] )?PHP Fatal error: +Out of memory [(]allocated [0-9]+') then 'php memory'
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
    case when program = 'systemd' then split_part(body, ':', 1) when program = 'kubelet' then coalesce(regexp_match(body, ' for \W+([A-Za-z0-9._-]+)\W+ with ')[1], regexp_match(body, 'containerName="([^"]+)"')[1]) when program = 'systemd-oomd' then regexp_match(body, '^Killed ([^ ]+) due')[1] when pool is not null then concat('php-fpm pool ', pool) end as own_name, case when body like '%PHP Fatal error: %' then concat('PHP Fatal error: ', coalesce(regexp_match(body, '(Allowed memory size of [0-9]+ bytes exhausted)')[1], 'Out of memory')) else coalesce(message_template, body) end as line
  from own
),
dead as (
  select host, coalesce(own_name, split_part(kind, ' ', 1)) as server, split_part(kind, ' ', 1) as runtime, split_part(kind, ' ', 2) as what, substr(line, 1, 140) as line
  from lines where kind is not null
),
counted as (
  select host, server, max(runtime) as runtime, what, count(*) as lines, max(line) as line,
    sum(count(*)) over (partition by host, server) as all_lines,
    row_number() over (partition by host, server order by case what when 'given_up' then 0 when 'restarts' then 1 when 'port' then 1 when 'memory' then 1 when 'boot' then 2 else 3 end, count(*) desc, what) as place
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
    when 'java' then 'java' when 'python' then 'python3, python' when 'nginx' then 'nginx' when 'apache' then 'apache2, httpd' when 'haproxy' then 'haproxy' when 'varnish' then 'varnishd, cache-main' when 'envoy' then 'envoy' when 'erlang' then 'beam.smp' when 'dotnet' then 'dotnet' when 'uvicorn' then 'uvicorn, python3, python' when 'celery' then 'celery, python3, python' when 'php-fpm' then 'php-fpm' when 'ruby' then 'ruby, puma' end as process_name,
  case when k.runtime in ('nginx', 'apache', 'haproxy', 'varnish', 'envoy') then 'proxy' else 'app' end as tier,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' when 'restarts' then 'restarts' when 'aborted' then 'aborted' when 'probe' then 'probe' else 'panic' end as what_text,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' when 'restarts' then 'restarts' when 'aborted' then 'aborted' when 'probe' then 'probe' else 'panic' end as why_text,
  case k.what when 'killed' then 'killed' when 'exited' then 'exited' when 'boot' then 'boot' when 'port' then 'port' when 'memory' then 'memory' when 'given_up' then 'given_up' when 'restarts' then 'restarts' when 'aborted' then 'aborted' when 'probe' then 'probe' else 'panic' end as fix_text,
  -- Neither a time limit nor a service that is away fills a heap or takes a port.
  case when k.what in ('memory', 'port') then 'app.service_unreachable, app.worker_timeout' when k.what = 'killed' then 'app.service_unreachable' end as not_explained_by,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests and k.all_lines >= 2 then 'page'
    when k.what in ('exited', 'probe', 'restarts') and k.runtime in ('systemd', 'container') and k.all_lines < 3 then 'note'
    -- Any unit of the host, such as a job that the kernel killed.
    when k.runtime in ('systemd', 'systemd-oomd', 'container') and k.all_lines < 3 and k.what <> 'given_up' and coalesce(a.failed, 0) < 0.05 * coalesce(a.requests, 1) then 'note'
    -- A roll-out starts containers that are not ready for a while.
    when k.what in ('probe', 'boot') and k.runtime = 'container' and coalesce(a.failed, 0) < 0.02 * coalesce(a.requests, 1) then 'note'
    when k.all_lines >= 3 or a.failed > 0 or k.what in ('given_up', 'port') then 'mail' else 'note' end as class,
  -- A job that failed once explains no failing request.
  case when k.what in ('exited', 'probe', 'boot', 'restarts') and k.runtime in ('systemd', 'container') and k.all_lines < 3 then '' end as explains
from counted k
left join answers a on a.host = k.host
where k.place = 1
