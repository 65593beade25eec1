/*---
id = "app.cannot_write"
title = "Program cannot write its files"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["log_program", "what"]
prefers = ["disk.full", "disk.inodes_full", "disk.readonly", "disk.io_error"]
needs = ["log", "request"]
when = """
select 1 from log where (body like '%o space left on device%' or body like '%ENOSPC%' or body like '%ead-only file system%' or body like '%EROFS%' or body like '%isk quota exceeded%' or body like '%EDQUOT%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%ermission denied%' or body like '%EACCES%' or body like '%AccessDeniedException%' or body like '%nput/output error%' or body like '%EIO: %' or body like '%Failed to write session data%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (attrs['system_error'] like '(28)%' or attrs['system_error'] like '(30)%' or attrs['system_error'] like '(122)%' or attrs['system_error'] like '(5)%') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['error.stack_trace'], attrs['exception'], attrs['Exception'], attrs['exception.message'], attrs['exc_info'], attrs['stack_trace']) is not null and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.empty_pages", "app.errors", "app.errors_quiet", "app.workers_die", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.upstream_errors", "slo.burning",
]
subject = "{shown} on {host}"
summary = "{shown} on {host} cannot write: {what_text}, {lines} times in a minute{share_text}; it logs \"{line}\""
why = "{why_text} Pages that only read still work, so a part of the site fails and the rest looks healthy: uploads, sessions and logins, caches, forms."
look_at = "Which directory the line names: `df -h DIRECTORY; df -i DIRECTORY; findmnt -T DIRECTORY` as the program sees it (`nsenter -t PID -m df -h` for a container or a service with PrivateTmp)."
silent_when = "Fewer than 3 such lines in a minute. A page if at least 20 % of the host's requests failed meanwhile. Missing permission is a note while no request fails: many programs try and go on. Only the program's own words count: for nginx and Apache the error of the system call, for applications lines and error fields that start with the error of a language (Python, Node.js, Java, Ruby, Go, PHP, .NET). Node.js's `ENOSPC … file watchers` is another limit and does not count; databases' own logs are db.server_log."
fix = "{fix_text} Check: the lines end, and an upload works."
source = "write(2), open(2): ENOSPC, EDQUOT, EROFS, EACCES; nginx ngx_files.c; Python OSError; Node.js errors.md; github.com/Screenly/Anthias #3127, github.com/bottlepy/bottle #629"
[text.what_text]
space = "no space is left"
readonly = "the file system is read-only"
quota = "its disk quota is used up"
permission = "permission is denied"
io = "its disk returns errors"
[text.why_text]
space = "The disk, its inodes, a tmpfs or a container's limit is full where this program writes. The disk that everybody watches may have space: the directory can be another file system (/tmp, /dev/shm, a volume)."
readonly = "The file system was mounted read-only, became so after an error, or the service may not write there (systemd `ProtectSystem`, `readOnlyRootFilesystem` of Kubernetes)."
quota = "The user or project has a quota on this file system, and it is used up."
io = "The disk, or the network storage behind it, does not return what was written, or accepts nothing more."
permission = "The directory belongs to another user since a deploy, a restore or a first run as root, or SELinux denies it."
[text.fix_text]
space = "Free space there: old temporary and session files, rotated logs. Then bound what grows. Apache `AH00023` with this error means that no semaphore is left: `ipcs -s`, then remove those of dead processes (`ipcrm`)."
readonly = "If it was writable before, see disk.readonly and `dmesg`. Else give the service its directory: `ReadWritePaths=`, `StateDirectory=`, an `emptyDir` volume."
quota = "`quota -u USER`, `xfs_quota -x -c report`; remove what is not needed, or raise it."
io = "`dmesg | grep -i -e 'I/O error' -e nfs`; see disk.io_error. Move the service to another host or disk before more is lost."
permission = "`namei -l PATH` shows owner and rights of each directory; give the directory to the service's user (`chown`), not to all (`chmod 777`). SELinux: `ausearch -m avc -ts recent`."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with spoken as (
  -- As in app.service_unreachable: structured logs have the error beside the message, and PHP's stand in the web server's log.
  select host, ts, coalesce(nullif(program, ''), 'other') as program, body,
    case when program = 'nginx' and message_template not like 'FastCGI sent in stderr: %' or program = 'apache' and coalesce(attrs['module'], 'core') in ('core', 'mpm_event', 'mpm_worker', 'mpm_prefork', 'rewrite', 'ssl', 'cache_disk', 'proxy', 'dav', 'dav_fs', 'slotmem_shm', 'socache_shmcb', 'unixd', 'watchdog') then message_template end as own,
    regexp_replace(
      case
        when program = 'nginx' and message_template like 'FastCGI sent in stderr: %' then regexp_match(body, '^FastCGI sent in stderr: "PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program = 'apache' and attrs['module'] = 'proxy_fcgi' then regexp_match(body, '^AH01071: Got error ''PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program = 'apache' and attrs['module'] like 'php%' and severity <> 'notice' then regexp_match(body, '^(PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
        when program like 'php%fpm%' then regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?(?:\[pool [^\]]+\] )?child [0-9]+ said into stderr: "NOTICE: PHP message: (PHP (?:Fatal error|Recoverable fatal error|Warning): +.*)')[1]
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
  where ts > $now - interval '60 seconds' and ts <= $now
    and coalesce(program, '') not in ('haproxy', 'sshd', 'weir', 'postgresql', 'postgres', 'mysqld', 'mariadbd', 'mariadb', 'mysql', 'redis', 'redis-server', 'valkey-server', 'mongod', 'rabbitmq', 'rabbitmq-server', 'memcached', 'sudo', 'su') and coalesce(severity, '') not in ('debug', 'trace')
    and regexp_like(concat_ws(' ', attrs['system_error'], coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.stack_trace'], nullif(concat_ws(': ', attrs['error.type'], attrs['error.message']), ''),
            nullif(concat_ws(': ', attrs['exception.class'], attrs['exception.message']), ''), attrs['exception'], attrs['Exception'], attrs['exc_info'], attrs['stack_trace'], body)), '[Nn]o space left on device|ENOSPC|[Rr]ead-only file system|EROFS|[Dd]isk quota exceeded|EDQUOT|[Pp]ermission denied|EACCES|AccessDenied|nput/output error|EIO: |Failed to write session data')
  -- Also keeps the text from being computed anew for each pattern.
  limit 50000
),
matched as (
  select host, case when own is null and program in ('nginx', 'apache') then 'PHP' else program end as program, coalesce(own, text) as line,
    case
      when own is not null then
        -- Of nginx the errors of files that it writes: of reading, a permission is a 403 (proxy.clients_rejected).
        case when program = 'nginx' and regexp_like(own, '^(pwrite|writev|pwritev|write|open|mkdir|rename|ftruncate|mkstemp)[(][)] "…" (failed [(]|has written only )') or program = 'apache' and regexp_like(own, '^[(](5|28|30|122)[)][A-Z]') or program = 'nginx' and regexp_like(own, '^(pread|read|preadv|sendfile)[(][)] ("…" )?failed [(]5: ') then
          case when regexp_like(own, '[(]28(: |[)])') then 'space' when regexp_like(own, '[(]30(: |[)])') then 'readonly' when regexp_like(own, '[(]122(: |[)])') then 'quota' when regexp_like(own, '[(]5(: |[)])') then 'io'
            when regexp_like(own, '^(pwrite|mkdir|rename|mkstemp)[(][)] "…" failed [(]13: ')
              -- The file of an upload or a buffered response.
              or program = 'nginx' and regexp_like(own, '^open[(][)] "…" failed [(]13: ') and regexp_like(body, '^open[(][)] "/[^" ]*/(body|client_body|client_temp|client_body_temp|proxy|proxy_temp|fastcgi|fastcgi_temp|uwsgi|uwsgi_temp)/([0-9]/[0-9]{2}/)?[0-9]{10}" failed [(]13: ') then 'permission' end end
      when regexp_like(text, 'file watchers') then null
      when regexp_like(text, '^((IOError|OSError|PermissionError|BlockingIOError): )?\[Errno (5|28|30|122|13)\] ') then
        case regexp_match(text, '\[Errno ([0-9]+)\]')[1] when '5' then 'io' when '28' then 'space' when '30' then 'readonly' when '122' then 'quota' else 'permission' end
      when regexp_like(text, '^(\[cause\]: )?([A-Za-z]*Error: )?(ENOSPC|EROFS|EDQUOT|EACCES|EIO): (no space left on device|read-only file system|disk quota exceeded|permission denied|i/o error), (read|write|open|mkdir|copyfile|rename|unlink|fsync|mkdtemp|appendfile)') then
        case regexp_match(text, '(ENOSPC|EROFS|EDQUOT|EACCES|EIO): ')[1] when 'EIO' then 'io' when 'ENOSPC' then 'space' when 'EROFS' then 'readonly' when 'EDQUOT' then 'quota' else 'permission' end
      when regexp_like(text, '^(Caused by: |([A-Za-z0-9_-]+ ERROR )?Unable to write to stream [^ ]+ for appender [A-Za-z0-9_-]+: )?java\.(io\.(IOException|FileNotFoundException)|nio\.file\.(FileSystemException|AccessDeniedException)): ') then
        case when regexp_like(text, '(: |[(])No space left on device[)]?$') then 'space' when regexp_like(text, '(: |[(])Read-only file system[)]?$') then 'readonly'
          when regexp_like(text, '(: |[(])Disk quota exceeded[)]?$') then 'quota' when regexp_like(text, 'AccessDeniedException: /|[(]Permission denied[)]$') then 'permission' end
      when regexp_like(text, '^Errno::(ENOSPC|EROFS|EDQUOT|EACCES)[: (]') then
        case regexp_match(text, '^Errno::(ENOSPC|EROFS|EDQUOT|EACCES)')[1] when 'ENOSPC' then 'space' when 'EROFS' then 'readonly' when 'EDQUOT' then 'quota' else 'permission' end
      when regexp_like(text, '^System\.(IO\.IOException|UnauthorizedAccessException): (No space left on device|Read-only file system|Disk quota exceeded|Access to the path )') then
        case when text like '%: No space%' then 'space' when text like '%: Read-only%' then 'readonly' when text like '%: Disk quota%' then 'quota' else 'permission' end
      when regexp_like(text, '^(write|open|mkdir|create|sync|rename|close) /[^ ]+( /[^ ]+)?: (no space left on device|read-only file system|disk quota exceeded|permission denied)$') then
        case when text like '%: no space%' then 'space' when text like '%: read-only%' then 'readonly' when text like '%: disk quota%' then 'quota' else 'permission' end
      when regexp_like(text, '^(file_put_contents|fwrite|fopen|mkdir|touch|rename|copy|move_uploaded_file|session_write_close|session_start|imagejpeg|imagepng|Unknown|tempnam)[(].*[)]: ([Ff]ailed to open stream: |[Ww]rite failed: |[Ww]rite of [0-9]+ bytes failed with errno=(28|30|122|13) )?(No space left on device|Read-only file system|Disk quota exceeded|Permission denied)( |$)') then
        case when regexp_like(text, '[: 8]( )?No space left on device( |$)') then 'space' when regexp_like(text, 'Read-only file system( |$)') then 'readonly' when regexp_like(text, 'Disk quota exceeded( |$)') then 'quota' else 'permission' end
      when regexp_like(text, '^(UnexpectedValueException: )?The stream or file "[^"]+" could not be opened( in append mode)?: ([Ff]ailed to open stream: )?(Permission denied|No space left on device|Read-only file system)|^Unknown: Failed to write session data [(]files[)]|^(write|read|open|sync) /[^ ]+: input/output error$') then
        case when regexp_like(text, ': No space left') then 'space' when regexp_like(text, ': Read-only') then 'readonly' when regexp_like(text, 'input/output error$') then 'io' else 'permission' end
    end as what
  from spoken
  where own is not null or text is not null
),
counted as (
  select host, program, what, count(*) as lines, max(substr(line, 1, 160)) as line
  from matched where what is not null
  group by host, program, what
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.program as log_program, c.what, c.lines, c.line, a.requests, a.failed,
  case when c.program like 'php%' then 'PHP' when c.program = 'other' then 'an application' else c.program end as shown,
  case c.what when 'space' then 'space' when 'readonly' then 'readonly' when 'quota' then 'quota' when 'io' then 'io' else 'permission' end as what_text,
  case c.what when 'space' then 'space' when 'readonly' then 'readonly' when 'quota' then 'quota' when 'io' then 'io' else 'permission' end as why_text,
  case c.what when 'space' then 'space' when 'readonly' then 'readonly' when 'quota' then 'quota' when 'io' then 'io' else 'permission' end as fix_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when c.program in ('nginx', 'apache', 'caddy', 'traefik', 'envoy') then 'proxy' else 'app' end as tier,
  case c.what when 'io' then 'disk.io_error, disk.readonly, disk.stuck' when 'readonly' then 'disk.readonly, disk.io_error, disk.stuck' when 'space' then 'disk.full, disk.inodes_full' else '' end as explained_by,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page'
    when c.what = 'permission' and coalesce(a.failed, 0) = 0 then 'note' else 'mail' end as class
from counted c
left join answers a on a.host = c.host
where c.lines >= 3
