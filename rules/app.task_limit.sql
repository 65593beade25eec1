/*---
id = "app.task_limit"
title = "Process or thread limit reached"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["log_program"]
needs = ["log", "request", "kmsg"]
when = """
select 1 from log where (body like '%native thread%' or body like '%start new thread%' or body like '%create Thread%' or body like '%alloc thread%' or body like 'runtime: failed to create new OS thread%' or body like '%esource temporarily unavailable%' or body like '%can''t fork)%' or body like '%EAGAIN%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (message_template like 'fork() failed while spawning %' or attrs['system_error'] like '(11)%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from kmsg where body like '%fork rejected by pids controller%' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.closes_early", "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow",
  "app.socket_backlog_full", "app.workers_die", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.upstream_errors", "proxy.upstream_timeout", "tcp.accept_queue_high", "tcp.listen_overflow",
  "unix.accept_queue_full", "proxy.upstream_hangs",
]
subject = "{shown} on {host}"
summary = "{shown} on {host} cannot start a thread or process, {lines} times in a minute{share_text}; it logs \"{line}\""
why = "The number of processes and threads is limited, per unit or container, per user and for the whole host, and one of these limits is reached. Memory is not the fault, although Java calls it OutOfMemoryError. What runs goes on; each new worker, connection thread or helper process fails."
look_at = "Which limit: `systemctl show UNIT -p TasksCurrent,TasksMax`, in a container /sys/fs/cgroup/pids.current and pids.max, `ulimit -u` of the user, `cat /proc/sys/kernel/threads-max /proc/sys/kernel/pid_max`. Who has the threads: `ps -eo nlwp,pid,cmd --sort=-nlwp | head`. A number that only rises is a leak of threads."
silent_when = "Fewer than 2 such lines in a minute, unless the kernel says it (`fork rejected by pids controller`). Only lines and error fields that start with the words of a runtime or server count (Java, Python, Ruby, Go, Node.js, php-fpm, systemd, cron), and of nginx and Apache the error of their own fork. A page if at least 20 % of the host's requests failed meanwhile."
fix = "End the leak or bound the pool first (threads per worker, connections, helper processes per request). If the number is meant: `systemctl edit UNIT` with `[Service]`, `TasksMax=8192` and `LimitNPROC=infinity`; Docker `--pids-limit`; Kubernetes `podPidsLimit` of the kubelet; kernel.threads-max and kernel.pid_max for the whole host. Check: the lines end, and the number of threads stays below half of the limit."
source = "clone(2) EAGAIN; kernel kernel/cgroup/pids.c; systemd.resource-control(5) TasksMax; HotSpot os_linux.cpp; CPython _threadmodule.c; Go runtime/os_linux.go; nginx ngx_process.c; Apache AH00159, AH03142; php-fpm fpm_children.c"
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with spoken as (
  select host, ts, coalesce(nullif(program, ''), 'other') as program, message_template, attrs['module'] as module,
    regexp_replace(regexp_replace(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body),
            '(?s)^(?:Traceback .*\n)?([^\n]+).*$', '\1'),
      '^([0-9TZ :.,/+-]+ )?(\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG|error|fatal)\]?:? +)?', '') as text
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (attrs['system_error'] like '(11)%' or message_template like 'fork() failed while spawning %'
      or regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body),
        'native thread|start new thread|create Thread|alloc thread|failed to create new OS thread|esource temporarily unavailable|can''t fork|EAGAIN'))
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
lines as (
  select host, program,
    case
      when program = 'nginx' then case when message_template like 'fork() failed while spawning %(11: %' then message_template end
      when program = 'apache' then case when coalesce(module, 'core') in ('core', 'mpm_event', 'mpm_worker', 'mpm_prefork') and regexp_like(message_template, '^[(]11[)][^:]*: AH(00159|03142|00281|00282)') then message_template end
      when program in ('apache2', 'httpd', 'haproxy', 'sshd', 'weir') then null
      when program like 'php%fpm%' then case when regexp_like(text, '^fork[(][)] failed: Resource temporarily unavailable [(]11[)]$') then text end
      when program = 'systemd' then case when regexp_like(text, '^[^ ]+: Failed to (fork|spawn [a-z-]+ task): Resource temporarily unavailable$') then text end
      when lower(program) in ('cron', 'crond') then case when regexp_like(text, '^[(]CRON[)] error [(]can''t fork[)]$') then text end
      when regexp_like(text, '^(Caused by: |Exception in thread "[^"]+" )?java\.lang\.OutOfMemoryError: unable to create (new )?native thread') then text
      when regexp_like(text, '^\[[0-9.,]+s\]\[warning\]\[os,thread\] (Failed to start thread|Attempt to protect stack)') then text
      when regexp_like(text, '^(RuntimeError|_thread\.error|thread\.error): can''t start new thread$') then text
      when regexp_like(text, '^ThreadError[: (]+can''t (create Thread|alloc thread)') or regexp_like(text, '^Errno::EAGAIN[: (]+Resource temporarily unavailable - fork[(]2[)]') then text
      when regexp_like(text, '^runtime: failed to create new OS thread ') or regexp_like(text, '^fork/exec [^ ]+: resource temporarily unavailable$') then text
      when regexp_like(text, '^([A-Za-z]*Error: )?spawn [^ ]+ EAGAIN$') then text
    end as line
  from spoken
),
told as (
  select host, program, substr(line, 1, 140) as line, false as is_kernel from lines where line is not null
  union all
  select host, coalesce(regexp_match(body, 'pids controller in ([^ ]+)')[1], 'a control group') as program, substr(body, 1, 140) as line, true as is_kernel
  from kmsg
  where ts > $now - interval '60 seconds' and ts <= $now and is_backlog is not true and regexp_like(body, '^cgroup: fork rejected by pids controller')
),
counted as (
  select host, program, max(line) as line, count(*) as lines, bool_or(is_kernel) as is_kernel from told group by host, program
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.program as log_program, c.line, c.lines, a.requests, a.failed,
  case when c.program = 'other' then 'an application' else c.program end as shown,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when c.program in ('nginx', 'apache') then 'proxy' else 'app' end as tier,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page' else 'mail' end as class
from counted c
left join answers a on a.host = c.host
where c.lines >= 2 or c.is_kernel
