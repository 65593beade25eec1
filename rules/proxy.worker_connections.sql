/*---
id = "proxy.worker_connections"
title = "nginx worker_connections exhausted"
tier = "proxy"
class = "page"
for = "0s"
every = "2s"
clear = "30s"
key = []
prefers = ["app.slow", "app.fd_limit", "app.blocked_on_store", "tcp.listen_overflow", "wire.syn_blackhole", "wire.host_unreachable"]
needs = ["log", "config_directive"]
when = "select 1 from log where program = 'nginx' and body like '%worker\\_connections%' and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "nginx on {host}"
summary = "nginx on {host} ran out of connections {lines} times in the last minute ({effect}): {setting_text}"
why = "Each worker may have worker_connections open at once, and a proxied request uses two, one to the client and one to the application. At the limit, nginx first closes idle keep-alive connections and then refuses new ones: clients are cut off while CPU and memory are free."
look_at = "Is it load or latency: many requests waiting for a slow application hold many connections (app.slow). sock_stat.tcp_established over the last hour. Idle clients: keepalive_timeout times new connections per second."
silent_when = "nginx did not log \"worker_connections are not enough\" within a minute. While it only reuses idle connections, clients are still served and it is a mail. \"exceed open file resource limit\" is a warning at start and a mail. While an upstream is slow or does not accept, waiting requests hold the connections: then it belongs to that finding and is only a note."
fix = "{place}worker_connections {wanted}; and in the main context worker_rlimit_nofile {wanted_files}; then `nginx -t && nginx -s reload`. An idle connection costs about 0.5 KiB, and each proxied request two descriptors, so the second number is at least twice the first. Check: the line does not come back. Do not lower keepalive_timeout to 0: each request would open a connection."
source = "fault lab F43; nginx src/core/ngx_connection.c, ngx_get_connection; nginx documentation of worker_connections and worker_rlimit_nofile"
---*/
with lines as (
  select host, count(*) as lines,
    count(*) filter (where body like '%are not enough%' and body not like '%reusing connections%') as refused,
    count(*) filter (where body like '%reusing connections%') as reused,
    max(body) as body,
    max(cast(regexp_match(body, '([0-9]+) worker_connections')[1] as bigint)) as said
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'nginx'
    and (body like '%worker\_connections are not enough%' or body like '%worker\_connections exceed open file resource limit%')
  group by host
),
config as (
  select c.host, c.file, c.line, try_cast(c.arguments as bigint) as value,
    row_number() over (
      partition by c.host
      order by case when try_cast(c.arguments as bigint) = l.said then 0 else 1 end, c.ts desc, c.file, c.line
    ) as place
  from config_directive c
  join lines l on l.host = c.host
  where c.program = 'nginx' and c.directive = 'worker_connections' and c.ts > $now - interval '2 hours' and c.ts <= $now
),
joined as (
  select l.*, c.file, c.line, coalesce(c.value, l.said, 512) as value, c.value as configured
  from lines l left join config c on c.host = l.host and c.place = 1
)
select host, lines, refused, reused, body, value,
  case when refused > 0 then 'connections were refused'
       when reused > 0 then 'idle connections were closed'
       else 'file-descriptor limit below worker_connections' end as effect,
  case when configured is not null then concat('worker_connections ', configured, ' in ', file, ':', line)
       else concat('worker_connections is ', value, ', 512 unless set') end as setting_text,
  case when file is not null then concat(file, ':', line, ': ') else 'in `events { }` of nginx.conf: ' end as place,
  greatest(4 * value, 4096) as wanted, 2 * greatest(4 * value, 4096) as wanted_files,
  case when refused > 0 then 'page' else 'mail' end as class
from joined
