/*---
id = "proxy.worker_connections"
title = "nginx worker_connections exhausted"
tier = "proxy"
class = "page"
for = "8s"
every = "2s"
clear = "30s"
key = []
prefers = [
  "disk.stuck", "disk.slow", "pg.lock_pileup", "db.not_answering", "db.connections_exhausted",
  "app.blocked_on_store", "app.fd_limit", "tcp.listen_overflow", "tcp.accept_queue_high", "app.slow",
  "wire.syn_blackhole", "wire.host_unreachable",
]
needs = ["log", "request", "config_directive"]
when = "select 1 from log where program = 'nginx' and message_template like '%worker\\_connections%' and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.errors_quiet", "app.requests_stopped", "client.aborts_499", "proxy.bad_gateway", "slo.burning"]
subject = "nginx on {host}"
summary = "nginx on {host} ran out of connections {lines} times in the last minute ({effect}): {setting_text}{waiting_text}"
why = "Each worker may have worker_connections open at once, and a proxied request uses two, one to the client and one to the application. At the limit, nginx first closes idle keep-alive connections and then refuses new ones: clients are cut off while CPU and memory are free."
look_at = "Is it load or latency: more requests per second than before, or the same with each taking longer? Many requests waiting for a slow application hold many connections (app.slow). sock_stat.tcp_established over the last hour. Idle clients: keepalive_timeout times new connections per second."
silent_when = "nginx did not log \"worker_connections are not enough\" within a minute. While it only reuses idle connections, clients are still served and it is a mail. \"exceed open file resource limit\" is a warning at start and a mail. While an upstream is slow or does not accept, waiting requests hold the connections: then it belongs to that finding and is only a note. It waits 8 s for such a finding. Without one, requests that timed out at the upstream, or successes below 70 % of their rate a minute ago, change the advice."
fix = "{fix_text}"
source = "fault lab F43; nginx src/core/ngx_connection.c, ngx_get_connection; nginx documentation of worker_connections and worker_rlimit_nofile"
[text.waiting_text]
load = ""
other = ", but the line says {said}"
fell = "; requests succeed at {rate_ratio:%} of the rate before, so they may be waiting for an upstream"
waiting = "; {timed_out} requests timed out waiting for {upstream}"
[text.fix_text]
load = "{place}worker_connections {wanted}; and in the main context worker_rlimit_nofile {wanted_files}; then `nginx -t && nginx -s reload`. An idle connection costs about 0.5 KiB, and each proxied request two descriptors, so the second number is at least twice the first. Check: the line does not come back. Do not lower keepalive_timeout to 0: each request would open a connection."
fell = "Find out first what holds the connections: `ss -tn state established` to the upstreams' ports, and the accept queue there (`ss -ltn`). If they wait for an upstream, more worker_connections only move more requests onto it; fix the upstream. If they are idle clients: {place}worker_connections {wanted}; with worker_rlimit_nofile {wanted_files}; then `nginx -t && nginx -s reload`. Check: the line does not come back."
other = "Do not raise worker_connections: it is {value} in the configuration, and the process that ran out has {said}. It was started before the change (then `nginx -s reload`), or it is no worker: the cache manager always has 512, and modules that open connections there (health checks, upstream synchronisation) use them up. `ps -o pid,lstart,args -C nginx` and the process id in the log line tell which. Check: the line does not come back."
waiting = "Do not raise worker_connections: the requests wait for {upstream}, and more of them make it slower. Fix what {upstream} waits for (its accept queue, its workers, its database). Until then limit the damage: `proxy_read_timeout 10s;`, `proxy_next_upstream_tries 1;`, and `max_conns=` in the `server` line, so that other sites keep their connections. Check: requests to {upstream} are answered again, and this line stops with it."
---*/
with lines as (
  select host, count(*) as lines,
    count(*) filter (where message_template like '%are not enough%' and message_template not like '%reusing connections%') as refused,
    count(*) filter (where message_template like '%reusing connections%') as reused,
    max(message_template) as body, max(source) as source,
    max(cast(regexp_match(message_template, '([0-9]+) worker_connections')[1] as bigint)) as said
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and program = 'nginx'
    and (message_template like '%worker\_connections are not enough%' or message_template like '%worker\_connections exceed open file resource limit%')
  group by host
),
-- Several nginx may run on a host: the one whose error_log it is.
instances as (
  select host, split_part(arguments, ' ', 1) as source, process_id,
    row_number() over (partition by host, split_part(arguments, ' ', 1) order by ts desc) as place
  from config_directive
  where program = 'nginx' and directive = 'error_log' and process_id is not null and ts > $now - interval '2 hours' and ts <= $now
),
config as (
  select c.host, c.file, c.line, try_cast(c.arguments as bigint) as value,
    row_number() over (
      partition by c.host
      order by case when c.process_id = i.process_id then 0 else 1 end, case when try_cast(c.arguments as bigint) = l.said then 0 else 1 end, c.ts desc, c.file, c.line
    ) as place
  from config_directive c
  join lines l on l.host = c.host
  left join instances i on i.host = l.host and i.source = l.source and i.place = 1
  where (i.process_id is null or c.process_id = i.process_id)
    and c.program = 'nginx' and c.directive = 'worker_connections' and c.ts > $now - interval '2 hours' and c.ts <= $now
),
gave_up as (
  -- Requests that ended without an answer of their upstream: in the error log and in the access log.
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as upstream
  from log
  where program = 'nginx' and body like 'upstream timed out%' and ts > $now - interval '60 seconds' and ts <= $now
  union all
  select host, upstream_address as upstream from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy'
    and (http_response_status_code = 504
      or http_response_status_code = 499 and coalesce(upstream_response_seconds, duration_seconds) >= 2)
),
timeouts as (
  select host, count(*) as timed_out, coalesce(last_value(upstream order by upstream nulls first), 'the upstream') as upstream
  from gave_up
  group by host
),
rates as (
  -- 499 and more: the client got no response.
  select host, cast(count(*) filter (where ts > $now - interval '10 seconds') as double) / 10 as rate,
    cast(count(*) filter (where ts <= $now - interval '30 seconds') as double) / 30 as rate_before
  from request
  where ts > $now - interval '60 seconds' and ts <= $now and tier = 'proxy' and http_response_status_code < 499
  group by host
),
joined as (
  select l.*, c.file, c.line, coalesce(c.value, l.said, 512) as value, c.value as configured
  from lines l left join config c on c.host = l.host and c.place = 1
)
select j.host, lines, refused, reused, body, value, said,
  case when refused > 0 then 'connections were refused'
       when reused > 0 then 'idle connections were closed'
       else 'file-descriptor limit below worker_connections' end as effect,
  case when configured is not null then concat('worker_connections ', configured, ' in ', file, ':', line)
       else concat('worker_connections is ', value, ', 512 unless set') end as setting_text,
  case when file is not null then concat(file, ':', line, ': ') else 'in `events { }` of nginx.conf: ' end as place,
  greatest(4 * value, 4096) as wanted, 2 * greatest(4 * value, 4096) as wanted_files,
    coalesce(t.timed_out, 0) as timed_out, t.upstream, r.rate / nullif(r.rate_before, 0) as rate_ratio,
  case when t.timed_out >= 3 then 'waiting' when configured <> said then 'other' when r.rate_before >= 1 and r.rate < 0.7 * r.rate_before then 'fell' else 'load' end as waiting_text,
  case when t.timed_out >= 3 then 'waiting' when configured <> said then 'other' when r.rate_before >= 1 and r.rate < 0.7 * r.rate_before then 'fell' else 'load' end as fix_text,
  case when refused > 0 then 'page' else 'mail' end as class
from joined j
left join timeouts t on t.host = j.host
left join rates r on r.host = j.host
