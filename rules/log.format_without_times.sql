/*---
id = "log.format_without_times"
title = "Access log has no times and names no upstream"
tier = "log"
class = "note"
for = "60s"
every = "60s"
clear = "10m"
key = ["source"]
needs = ["request", "config_directive"]
when = "select 1 from request where tier = 'proxy' and duration_seconds is null and program in ('nginx', 'apache') and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "{source} on {host}"
summary = "{source} on {host}: {requests} requests in 10 minutes without a duration, so slow requests cannot be seen and slow upstreams cannot be named"
why = "nginx's `combined` and Apache's `combined` log the status but no time and no upstream. weir then sees failures (proxy.bad_gateway, and the error log's lines) but not slowness, retries, or which member is the slow one."
look_at = "`weir up` lists each log with its format and the line that sets it. `weir parse --path {source:sh} LINE` shows what a line of the new format would become."
silent_when = "Any request of that log in 10 minutes has a duration, or it has fewer than 100 requests. A site of static files may do without."
fix = "{where_text}{fix_text}"
source = "nginx ngx_http_log_module, ngx_http_upstream_module variables; Apache mod_log_config"
[text.where_text]
known = "{file}:{line} is `{setting}`. "
unknown = ""
[text.fix_text]
nginx = "Put the fields at the end of the format, so that other readers of the log keep working: `log_format timed '$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\" host=$host rt=$request_time uct=$upstream_connect_time uht=$upstream_header_time urt=$upstream_response_time ua=$upstream_addr us=$upstream_status';` in `http`, then `access_log {source} timed;`, `nginx -t && nginx -s reload`."
apache = "Put the fields at the end of the format: `LogFormat \"%h %l %u %t \\\"%r\\\" %>s %O \\\"%{Referer}i\\\" \\\"%{User-Agent}i\\\" %v %D\" timed`, then `CustomLog {source} timed`, `apachectl configtest && apachectl graceful`."
---*/
with logs as (
  select host, program, source, count(*) as requests
  from request
  where tier = 'proxy' and program in ('nginx', 'apache') and ts > $now - interval '10 minutes' and ts <= $now
  group by host, program, source
  having count(*) >= 100 and count(duration_seconds) = 0
),
config as (
  select host, program, file, line, concat(directive, ' ', arguments) as setting, split_part(arguments, ' ', 1) as path,
    row_number() over (partition by host, program, split_part(arguments, ' ', 1) order by ts desc, file, line) as place
  from config_directive
  where ts > $now - interval '2 hours' and ts <= $now and lower(directive) in ('access_log', 'customlog', 'transferlog')
)
select l.host, l.source, l.program, l.requests, c.file, c.line, c.setting,
  case when c.file is not null then 'known' else 'unknown' end as where_text,
  case when l.program = 'apache' then 'apache' else 'nginx' end as fix_text
from logs l
left join config c on c.host = l.host and c.program = l.program and c.place = 1 and (c.path = l.source or l.source like concat('%/', c.path))
