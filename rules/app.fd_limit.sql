/*---
id = "app.fd_limit"
title = "File-descriptor limit reached"
tier = "app"
class = "page"
for = "0s"
every = "2s"
clear = "30s"
key = ["log_program"]
needs = ["log", "config_directive", "process_stat", "kmsg"]
when = """
select 1 from log where (body like '%oo many open files%' or body like '%o file descriptors available%' or body like '%EMFILE%' or body like '%ENFILE%' or body like '%out of file descriptors%' or body like '%FD limit%' or attrs['system_error'] like '(2_)Too many open files%' or coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception']) like '%oo many open files%' or coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception']) like '%o file descriptors available%' or coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception']) like '%EMFILE%') and ts > $now - interval '30 seconds' and ts <= $now
union all
select 1 from kmsg where kind = 'files_full' and is_backlog is not true and ts > $now - interval '30 seconds' and ts <= $now
union all
select 1 from process_stat where open_files > 0.8 * open_files_limit and ts > $now - interval '30 seconds' and ts <= $now
limit 1"""
explains = [
  "app.closes_early", "app.error_outlier", "app.errors", "app.errors_quiet",
  "app.health_digest_missing", "app.requests_stopped", "app.slow", "app.slow_outlier",
  "app.slow_quiet", "app.throughput_drop", "client.aborts_499", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.haproxy_queue", "proxy.masked_errors", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak", "tcp.listen_overflow",
  "unix.accept_queue_full", "wire.mtu_blackhole", "slo.burning", "proxy.upstream_hangs",
]
subject = "{program} on {host}"
summary = "{program} on {host} {what_text}"
why = "Every connection is an open file. At its limit the process cannot accept another one: new clients wait in the accept queue until it overflows, and the process cannot open files or connections of its own either. Existing connections keep working, so it looks alive."
look_at = "How many and of what kind: `ls -l /proc/PID/fd | wc -l` against \"Max open files\" in /proc/PID/limits. Rising for hours: a leak (sock_stat.tcp_close_wait rises too: tcp.close_wait_leak). Rising with the traffic: the limit is too low."
silent_when = "No followed log contained \"Too many open files\" (EMFILE or ENFILE) within 30 s, and no process with a listening socket uses more than 80 % (mail) or 98 % (page) of its limit; other processes do not count. One log line is enough, because the limit is hard: a page for errno 24 of a proxy or for accept(), else a mail. Only the program's own words count: not a path, user name or header that it logs, and of applications only lines that start with the error."
fix = "{fix_text} Check: the line does not come back and the number of /proc/PID/fd stays below half of the limit. A restart frees descriptors at once; if the number then grows again without more traffic, it is a leak and no limit helps."
source = "fault lab F17 (41 files of 40, accept queue 33 of 32); accept(2) EMFILE, ENFILE; systemd.exec(5) LimitNOFILE"
[text.fix_text]
host = "The limit of the whole host is reached: find which processes hold them (`lsof | awk '{print $1}' | sort | uniq -c | sort -n | tail`) and raise fs.file-max in /etc/sysctl.d/90-weir.conf."
nginx_line = "{file}:{line}: worker_rlimit_nofile 65536; (now {arguments}), then `nginx -t && nginx -s reload`."
nginx = "In the main context of nginx.conf: worker_rlimit_nofile 65536; then `nginx -t && nginx -s reload`."
haproxy = "{file}:{line}: remove `ulimit-n {arguments}`, HAProxy computes it from maxconn; then restart it."
memcached = "memcached sets its limit of open files from its limit of connections: find who holds them (`ss -tnp 'sport = :11211'`; a client that opens one per request and never closes it), let clients close or reuse them, and only then raise `-c` in /etc/memcached.conf and restart it (it loses its content)."
other = "Raise the limit of {program}: `systemctl edit` its unit with `[Service]` and `LimitNOFILE=65536`, then restart it."
---*/
with lines_said as (
  select host, coalesce(nullif(program, ''), 'a program') as program, count(*) as lines,
    max(coalesce(message_template, attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body)) as body, max(source) as source,
    count(*) filter (where message_template like '%(24: %' or message_template like '(24)%'
      or regexp_like(coalesce(message_template, attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), '(^|[ .])[Aa]ccept(4|_mutex)?(\(\))?( failed|:| EMFILE| error: accept tcp )')) as refusals
  from log
  where ts > $now - interval '30 seconds' and ts <= $now and coalesce(program, '') <> 'weir'
    and (regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), 'oo many open files|o file descriptors available|E[MN]FILE|out of file descriptors|FD limit') or program = 'apache' and attrs['system_error'] like '(2_)Too many open files%' or program = 'apache' and attrs['system_error'] like '(24)%')
    -- What applications inside of Apache print is not Apache's.
    and not (coalesce(program, '') = 'apache' and (coalesce(attrs['module'], '') like 'php%' or coalesce(attrs['module'], '') in ('wsgi', 'perl', 'cgi', 'cgid', 'lua', 'security2', 'passenger', 'fcgid', 'proxy_fcgi', 'proxy_uwsgi')))
    -- Of other programs only what starts like an error of a language or a system call: the rest of a line may be a visitor's.
    and ((message_template like '%oo many open files%' or message_template like 'Proxy % reached process FD limit %' or message_template like '%(24: No file descriptors available)%' or message_template like '(24)%') and coalesce(program, '') not in ('apache2', 'httpd') or (message_template is null and coalesce(program, '') not in ('apache', 'apache2', 'httpd') and (regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), concat('^[0-9TZ :.,/+-]*(\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG)\]?:? +)?((dial (tcp|udp|unix) [^ ]+: socket: |open /[^ ]+: |socket: |pipe2?: |fork/exec [^ ]+: |error accepting connection: |accept error: |Error: |(error communicating with|accept failed)[^:]*: )([Tt]oo many open files|[Nn]o file descriptors available)( [(]os error 24[)])?$|',
      '(Uncaught )?[A-Za-z]*Error: ((connect|accept|spawn|getaddrinfo|listen|pipe|open) )?E[MN]FILE([ ,]|$)|((connect|accept|spawn|getaddrinfo) )?EMFILE([ ,:]|$)|(Caused by: )?java\.[A-Za-z.]+Exception: [^ ]{1,200} [(]Too many open files[)]$|( *---> )?System\.Net\.Sockets\.SocketException [(]24[)]: Too many open files|([a-z]+=[^ ]+ )*(\[(error|warning|warn)\] )?Ranch acceptor reducing accept rate: out of file descriptors|\[[0-9-]+ [0-9:.]+\]\[[0-9]+\]\[critical\]\[assert\] (\[[^\]]+\] )?panic: socket[(]2[)] failed, got: Too many open files)')) or regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), concat(
      '^[0-9TZ :.,/+-]*(\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG)\]?:? +)?',
      '(Caused by: |Uncaught |(echo: )?http: Accept error: |error: )?',
      '(([A-Za-z_$][A-Za-z0-9_.$]*)?(Error|Exception): (\[Errno 2[34]\] |(accept )?E[MN]FILE: )?|Errno::E[MN]FILE: |Errno::E[MN]FILE [(]|[A-Z]+ \[[0-9]+\] ERROR |',
      '(Error in |Accepting client connection: |Failed to )?(accept4?|socket|open|accept connection)(\(\))?( failed)?: |accept tcp [^ ]+: (accept4?: )?|([a-z][a-z0-9_]*(::[a-z0-9_]+)*: )?[Aa]ccept failed( with error)?: )([Tt]oo many open files|[Nn]o file descriptors available)')))))
  group by 1, 2
  union all
  select host, 'the kernel' as program, count(*) as lines, concat(max(body), ' (too many open files in system)') as body, 'kmsg' as source, count(*) as refusals
  from kmsg
  where kind = 'files_full' and is_backlog is not true and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
processes as (
  select host, process_name as program, process_id, open_files, open_files_limit,
    cast(open_files as double) / greatest(open_files_limit, 1) as full_ratio,
    row_number() over (partition by host, process_name order by cast(open_files as double) / greatest(open_files_limit, 1) desc, ts desc) as place
  from process_stat
  where ts > $now - interval '12 seconds' and ts <= $now and open_files > 0.8 * open_files_limit
),
lines as (
  select coalesce(l.host, p.host) as host, coalesce(l.program, p.program) as program,
    coalesce(l.lines, 0) as lines, l.body, coalesce(l.refusals, 0) as refusals,
    p.process_id, p.open_files, p.open_files_limit, p.full_ratio
  from lines_said l
  full join (select * from processes where place = 1) p on p.host = l.host and p.program = l.program
),
-- Several nginx may run on a host: the one whose error_log it is.
instances as (
  select host, program, split_part(arguments, ' ', 1) as source, process_id,
    row_number() over (partition by host, program, split_part(arguments, ' ', 1) order by ts desc) as place
  from config_directive
  where lower(directive) in ('error_log', 'errorlog') and process_id is not null and ts > $now - interval '2 hours' and ts <= $now
),
config as (
  select c.host, c.program, c.file, c.line, c.arguments,
    row_number() over (partition by c.host, c.program order by c.ts desc, c.file, c.line) as place
  from config_directive c
  left join lines_said l on l.host = c.host and l.program = c.program
  left join instances i on i.host = l.host and i.program = l.program and i.source = l.source and i.place = 1
  where (i.process_id is null or c.process_id = i.process_id) and c.directive in ('worker_rlimit_nofile', 'ulimit-n') and c.ts > $now - interval '2 hours' and c.ts <= $now
)
select l.host, l.program, l.program as log_program, l.lines, substr(l.body, 1, 200) as body, l.process_id, l.open_files, l.open_files_limit, l.full_ratio,
  c.file, c.line, c.arguments,
  case when l.refusals > 0 or l.full_ratio > 0.98 then 'page' else 'mail' end as class,
  concat(
    case when l.lines > 0 then concat('logs too many open files: ', l.lines, ' lines in 30 s, such as "', substr(l.body, 1, 200), '"') else '' end,
    case when l.lines > 0 and l.process_id is not null then '; ' else '' end,
    case when l.process_id is not null
      then concat('process ', l.process_id, ' uses ', l.open_files, ' of ', l.open_files_limit, ' file descriptors') else '' end
  ) as what_text,
  case when l.program in ('nginx', 'haproxy', 'apache') then 'proxy' else 'app' end as tier,
  case
    when coalesce(l.body, '') like '%oo many open files in system%'
      then 'host'
    when l.program = 'nginx' and c.file is not null
      then 'nginx_line'
    when l.program = 'nginx'
      then 'nginx'
    when l.program = 'haproxy' and c.file is not null
      then 'haproxy'
    when l.program = 'memcached'
      then 'memcached'
    else 'other'
  end as fix_text
from lines l
left join config c on c.host = l.host and c.program = l.program and c.place = 1
