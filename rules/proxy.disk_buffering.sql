/*---
id = "proxy.disk_buffering"
title = "nginx buffers responses to disk"
tier = "proxy"
class = "note"
for = "0s"
every = "60s"
clear = "10m"
key = ["upstream"]
needs = ["log", "request", "config_directive"]
when = "select 1 from log where program = 'nginx' and message_template like '%buffered to a temporary file%' and ts > $now - interval '5 minutes' and ts <= $now limit 1"
subject = "nginx on {host}"
summary = "nginx on {host} buffered {buffered} responses{upstream_text} to temporary files in 5 minutes, {share:%} of {requests} requests"
why = "nginx reads the response as fast as the application sends it and passes it on as fast as the client reads. Whatever exceeds proxy_buffers goes to a file and is read back: disk I/O for each such request, and a slow disk then delays clients."
look_at = "Which responses: `select attrs['request'], count(*) from log where program = 'nginx' and message_template like 'an upstream response is buffered%' group by 1`. Large downloads, or pages slightly over 64 KiB? disk_stat of the disk with proxy_temp_path."
silent_when = "At most 1 % of the proxied requests (of that upstream, where the log names it), or fewer than 20 in 5 minutes. Uploads buffered to a file do not count: large ones must be. nginx logs it at level `warn` only, which its default level `error` does not include."
fix = "Pages: {place}proxy_buffers 16 32k; proxy_buffer_size 32k; (at most 512 KiB per open request, only while needed). Downloads through the application: `proxy_max_temp_file_size 0;` in their location, so that nginx reads from the application only as fast as the client (this occupies an application worker), or better `X-Accel-Redirect`, so that nginx sends the file itself. Then `nginx -t && nginx -s reload`. Check: such lines are below 1 % of the requests."
source = "nginx documentation of proxy_buffers and proxy_max_temp_file_size; nginx src/event/ngx_event_pipe.c"
[text.upstream_text]
known = " of {upstream}"
unknown = ""
---*/
with lines as (
  select host, upstream, count(*) as buffered
  from (
    select host, coalesce(case when attrs['upstream'] like '%://unix:%' then regexp_match(attrs['upstream'], '(unix:[^:]+)')[1]
      else regexp_match(attrs['upstream'], '://([^/]+)')[1] end, '') as upstream
    from log
    where program = 'nginx' and message_template like 'an upstream response is buffered to a temporary file%'
      and ts > $now - interval '5 minutes' and ts <= $now
  ) l
  group by host, upstream
  having count(*) >= 20
),
answered as (
  select host, coalesce(upstream_address, '') as address, count(*) as requests
  from request
  where tier = 'proxy' and program = 'nginx' and upstream_response_seconds is not null
    and ts > $now - interval '5 minutes' and ts <= $now
  group by host, coalesce(upstream_address, '')
),
-- Where the log names upstreams, the ones of this address; else all.
served as (
  select l.host, l.upstream,
    coalesce(nullif(sum(case when a.address = l.upstream then a.requests else 0 end), 0), sum(a.requests)) as requests
  from lines l
  join answered a on a.host = l.host
  group by l.host, l.upstream
),
config as (
  select host, file, line, row_number() over (partition by host order by ts desc, file, line) as place
  from config_directive
  where program = 'nginx' and directive in ('proxy_buffering', 'proxy_pass') and ts > $now - interval '2 hours' and ts <= $now
)
select l.host, l.upstream, l.buffered, s.requests, cast(l.buffered as double) / s.requests as share,
  case when l.upstream = '' then 'unknown' else 'known' end as upstream_text,
  case when c.file is not null then concat('beside ', c.file, ':', c.line, ': ') else '' end as place
from lines l
join served s on s.host = l.host and s.upstream = l.upstream
left join config c on c.host = l.host and c.place = 1
where l.buffered > 0.01 * s.requests
