/*---
id = "app.slow_requests_logged"
title = "Application's own log reports slow requests"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["log_server"]
prefers = ["pg.lock_pileup", "mysql.lock_pileup", "db.not_answering", "db.connections_exhausted", "db.statements_slow", "redis.blocked", "dns.resolver_slow", "disk.stuck", "disk.slow", "mem.thrash", "cpu.cgroup_throttled"]
needs = ["log", "request"]
when = """
select 1 from log where body like '%executing too slow (% sec), logging' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where (body like '%StuckThreadDetectionValve%' or body like '%<BEA-000337>%' or body like '%Rack::Timeout::RequestTimeout%') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "app.socket_backlog_full",
  "app.throughput_drop", "app.worker_timeout", "app.workers_exhausted", "client.aborts_499",
  "proxy.bad_gateway", "proxy.upstream_errors", "proxy.upstream_timeout", "tcp.accept_queue_high",
  "tcp.listen_overflow", "unix.accept_queue_full", "proxy.upstream_hangs",
]
subject = "{server} on {host}"
summary = "{server} on {host} logs {lines} slow requests in a minute, {past_text}{share_text}; most often {what}"
why = "The server notes each request that takes longer than the limit in its configuration. So many at once mean that something they share is slow, a database, a lock, another service, the disk, and each of them holds a worker meanwhile. Where the access log has no times, this is the only sign before all workers are busy."
look_at = "The slow log itself has where each request waits: php-fpm `slowlog` (a backtrace per request), Tomcat's and WebLogic's lines carry the thread's stack. The same function in most of them is the place; findings on the database and the disk name the reason."
silent_when = "Fewer than 10 such lines in a minute, or fewer than 3× the average of the 10 minutes before. A note while the host's requests are served, without a 5xx and without aborts after 5 s: reports and exports take their time. Only servers whose slow log is on say anything (php-fpm `request_slowlog_timeout`, Tomcat's StuckThreadDetectionValve, rack-timeout, WebLogic)."
fix = "Repair what they wait for; until then take the slow path away or limit it (`limit_conn` for its location), so that the others get workers. Do not raise the number of workers first: more requests then wait at the same place. Check: the lines are as rare as before."
source = "php-fpm fpm_request.c; Tomcat StuckThreadDetectionValve; rack-timeout; WebLogic BEA-000337"
[text.past_text]
none = "none in the 10 minutes before"
some = "{past_each} a minute before"
[text.share_text]
known = "; {failed} of {requests} requests failed or were given up"
unknown = ""
---*/
with lines as (
  select host, ts,
    case
      when regexp_like(body, 'executing too slow [(][0-9.]+ sec[)], logging$') then concat_ws(' ', 'php-fpm', case when coalesce(attrs['pool'], regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?\[pool ([^\]]+)\]')[1]) is not null
        then concat('pool ', coalesce(attrs['pool'], regexp_match(body, '^(?:\[[^\]]+\] WARNING: )?\[pool ([^\]]+)\]')[1])) end)
      when body like '%StuckThreadDetectionValve%' then 'tomcat' when body like '%BEA-000337%' then 'weblogic' else 'rack-timeout'
    end as server,
    coalesce(regexp_match(body, 'child [0-9]+, script ''([^'']{1,120})''')[1], regexp_match(body, 'the same request for \[([^\] ?]{1,120})')[1], 'a request') as what
  from log
  where ts > $now - interval '11 minutes' and ts <= $now
    -- An application's message may stand in a web server's log, with a visitor's text in it.
    and coalesce(program, '') not in ('apache', 'apache2', 'httpd', 'nginx', 'haproxy', 'sshd')
    and (regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] WARNING: )?(\[pool [^\]]+\] )?child [0-9]+, script ''.*'' ?[(]request: ".*"[)] executing too slow [(][0-9.]+ sec[)], logging$')
      or regexp_like(body, '^([0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+ )?(WARNING )?(\[[^\]]{1,60}\] )?(org\.apache\.catalina\.valves\.StuckThreadDetectionValve\.notifyStuckThreadDetected )?Thread \[[^\]]{1,80}\] [(]id=\[[0-9,]+\][)] has been active for \[[0-9,.]+\] milliseconds ')
      or regexp_like(body, '^####<[^>]{1,60}> <Error> <WebLogicServer> .*<BEA-000337> <\[STUCK\] ')
      or regexp_like(body, '^([A-Z], \[[0-9T:.-]+ #[0-9]+\] +[A-Z]+ -- : (\[[A-Za-z0-9-]{1,40}\] )*)?Rack::Timeout::RequestTimeout(Exception|Error)[: (]+Request ran for longer than '))
),
counted as (
  select host, server, count(*) filter (where ts > $now - interval '60 seconds') as lines,
    count(*) filter (where ts <= $now - interval '60 seconds') / 10.0 as past_each
  from lines group by host, server
),
most as (
  select host, server, what, row_number() over (partition by host, server order by count(*) desc, what) as place
  from lines where ts > $now - interval '60 seconds' group by host, server, what
),
answers as (
  select host, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or http_response_status_code = 499 and coalesce(duration_seconds, 5.0) >= 5.0
      or termination_state like 's%' or termination_state like 'S%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.server, c.server as log_server, c.lines, c.past_each, m.what, a.requests, a.failed,
  case when c.past_each > 0 then 'some' else 'none' end as past_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page'
    when a.requests >= 10 and a.failed = 0 then 'note' else 'mail' end as class
from counted c
join most m on m.host = c.host and m.server = c.server and m.place = 1
left join answers a on a.host = c.host
where c.lines >= 10 and c.lines >= 3 * c.past_each
