/*---
id = "app.worker_timeout"
title = "Application workers killed at their time limit"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "60s"
key = ["server"]
prefers = ["pg.lock_pileup", "db.not_answering", "db.connections_exhausted", "app.blocked_on_store", "dns.resolver_slow", "cpu.cgroup_throttled", "disk.stuck", "disk.slow", "mem.thrash"]
needs = ["log", "request", "tcp_wait"]
when = """
select 1 from log where body like '%WORKER TIMEOUT (pid:%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%*** HARAKIRI ON WORKER %' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%execution timed out (% sec), terminating' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%worker=% PID:% timeout (%s > %s), killing' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%! Terminating timed out worker%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where body like '%PHP Fatal error: %Maximum execution time of % seconds exceeded%' and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'mod_fcgid: read data timeout in %' and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.closes_early", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.socket_backlog_full", "app.throughput_drop", "app.workers_die", "app.workers_exhausted",
  "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.haproxy_slow",
  "proxy.no_live_upstreams", "proxy.upstream_errors", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "traffic.unusual", "unix.accept_queue_full", "slo.burning",
  "proxy.upstream_hangs",
]
subject = "{server} on {host}"
summary = "{server} on {host} killed {lines} workers at their time limit in a minute{share_text}; it logs \"{line}\"{wait_note}"
why = "A master process (gunicorn, uWSGI, php-fpm, unicorn, Puma) watches its workers and kills one that works on a request for longer than the limit. The visitor of that request gets 502, and while the worker starts again there is one fewer. The limit is not the fault: something holds the worker."
look_at = "What the killed worker waited for: the traceback that gunicorn or uWSGI logs, php-fpm's slow log, the database's list of statements in progress at that time. One path or all? gunicorn's sync workers also count a slow client: without a buffering proxy in front, slow uploads look the same."
silent_when = "No such line within a minute. One or two workers while nothing else fails are a note: a report that takes too long. It is a page if at least 20 % of the host's requests failed in that minute."
fix = "Repair what holds the workers: a statement without an index, a lock, a service without a timeout (set one below the worker's limit, so that the application can answer). Take the path away until then. Raise the limit (gunicorn `--timeout`, uWSGI `harakiri`, php-fpm `request_terminate_timeout`, PHP `max_execution_time`) only for work that must take so long, and move that to a queue. Check: the lines end."
source = "gunicorn arbiter.py murder_workers; uWSGI core/master_checks.c; php-fpm fpm_request.c; unicorn http_server.rb; Puma cluster.rb"
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with lines as (
  select host, ts,
    case when body like '%WORKER TIMEOUT (pid:%' then 'gunicorn' when body like '%HARAKIRI%' then 'uwsgi'
         when body like '%execution timed out (%' then concat_ws(' ', 'php-fpm', case when coalesce(attrs['pool'], regexp_match(body, '\[pool ([^\]]+)\]')[1]) is not null then concat('pool ', coalesce(attrs['pool'], regexp_match(body, '\[pool ([^\]]+)\]')[1])) end)
         when body like '%PHP Fatal error: %' then 'php' when body like '%killing' then 'unicorn' when body like 'mod_fcgid%' then 'mod_fcgid' else 'puma' end as server,
    coalesce(regexp_match(body, '(WORKER TIMEOUT [(]pid:[0-9]+[)])')[1], regexp_match(body, '(HARAKIRI ON WORKER [0-9]+)')[1], regexp_match(body, '(execution timed out [(][0-9.]+ sec[)], terminating)$')[1],
      regexp_match(body, '(timeout [(][0-9]+s > [0-9]+s[)], killing)$')[1], regexp_match(body, '(read data timeout in [0-9]+ seconds)')[1], regexp_match(body, '(Maximum execution time of [0-9]+ seconds exceeded)')[1], 'Terminating timed out worker') as line
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    -- An application's message may stand in a web server's log, with a visitor's text in it.
    and (coalesce(program, '') not in ('apache', 'apache2', 'httpd', 'nginx', 'haproxy', 'sshd')
      and (regexp_like(body, '^(\[?[0-9-]+ [0-9:]+( [+-][0-9]{4})?\]? )?(\[[0-9]+\] )?(\[(CRITICAL|ERROR|WARNING)\] )?WORKER TIMEOUT [(]pid:[0-9]+[)]$')
      or regexp_like(body, '^([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]{2} [0-9:]{8} [0-9]{4} - )?[*]{3} HARAKIRI ON WORKER [0-9]+ ')
      or regexp_like(body, '^(\[[0-9]{2}-[A-Za-z]{3}-[0-9]{4} [0-9:.]+\] WARNING: \[pool [^\]]+\] )?child [0-9]+, script .* execution timed out [(][0-9.]+ sec[)], terminating$')
      or regexp_like(body, '^(E, \[[^\]]*\] ERROR -- : )?worker=[0-9]+ PID:[0-9]+ timeout [(][0-9]+s > [0-9]+s[)], killing$')
      or regexp_like(body, '^\[[0-9]+\] ! Terminating timed out worker'))
      or (program = 'nginx' and message_template like 'FastCGI sent in stderr: %' and regexp_like(body, '^FastCGI sent in stderr: "PHP message: PHP Fatal error: +Maximum execution time of [0-9]+ seconds exceeded') or program = 'apache' and attrs['module'] = 'proxy_fcgi' and regexp_like(body, '^AH01071: Got error ''PHP message: PHP Fatal error: +Maximum execution time of [0-9]+ seconds exceeded') or program = 'apache' and attrs['module'] like 'php%' and severity <> 'notice' and regexp_like(body, '^PHP Fatal error: +Maximum execution time of [0-9]+ seconds exceeded') or coalesce(program, '') not in ('nginx', 'haproxy', 'apache', 'apache2', 'httpd', 'sshd') and regexp_like(body, '^(\[[0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:.]+( [A-Z][A-Za-z_/]+)?\] )?PHP Fatal error: +Maximum execution time of [0-9]+ seconds exceeded'))
      or program = 'apache' and coalesce(attrs['module'], 'fcgid') = 'fcgid' and body like 'mod_fcgid: read data timeout in %')
),
killed as (
  select host, server, max(line) as line, count(*) as lines from lines group by host, server
),
hanging as (
  -- What the program itself waits for.
  select host as hanging_host, process_name as hanging_process,
    last_value(concat('; ', waiting, ' of its ', connections, ' connections to ', case when server_address like '%:%' then concat('[', server_address, ']') else server_address end, ':', server_port, ' wait for a response') order by waiting, ts) as wait_note
  from tcp_wait
  where side = 'client' and longest_seconds >= 2 and waiting >= 3 and 2 * waiting >= connections and ts > $now - interval '20 seconds' and ts <= $now
  group by host, process_name
),
answers as (
  select host, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or termination_state like 's%' or termination_state like 'S%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select k.host, k.server, k.line, k.lines, coalesce(h.wait_note, '') as wait_note, a.requests, a.failed,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page' when k.lines >= 3 or a.failed > 0 then 'mail' else 'note' end as class
from killed k
left join answers a on a.host = k.host
left join hanging h on h.hanging_host = k.host and starts_with(h.hanging_process, split_part(k.server, ' ', 1))
