/*---
id = "app.socket_backlog_full"
title = "Backlog of a Unix socket is full"
tier = "app"
class = "mail"
for = "2s"
every = "3s"
clear = "30s"
key = ["upstream"]
prefers = ["app.workers_exhausted", "app.worker_timeout", "pg.lock_pileup", "db.not_answering"]
needs = ["log", "request"]
when = """
select 1 from log where program = 'nginx' and (body like 'connect() to unix:% failed (11: %) while connecting to upstream') and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and (body like 'AH02454: % attempt to connect to Unix domain socket %') and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "app.throughput_drop",
  "client.aborts_499", "proxy.bad_gateway", "proxy.masked_errors", "proxy.no_live_upstreams",
  "proxy.retry_amplification", "proxy.upstream_errors", "tcp.accept_queue_high", "traffic.unusual",
  "slo.burning",
]
subject = "{upstream}"
summary = "{upstream}: backlog full, {program} on {host} could not connect {lines} times in a minute (EAGAIN); {share_text}"
why = "On a Unix socket connect(2) fails at once with EAGAIN (11) when the listener's backlog is full: there is no SYN to repeat. So every request beyond workers plus backlog gets 502 at once, without any wait. The workers behind the socket are all busy, or too few."
look_at = "What the workers do: the application's log (php-fpm: `server reached pm.max_children`, its slow log; gunicorn: WORKER TIMEOUT), their CPU, and the database that they use. `ss -xln | grep {upstream:sh}`: Recv-Q is the queue, Send-Q its limit."
silent_when = "Fewer than 3 such lines in a minute, all of them within 3 s (a restart), or less than 0.2 % of the requests. It is a page if they make up at least 20 % of all requests of this proxy in the last minute and those failed for the visitor as well, or, where no access log is read, from 30 lines a minute (defaults). A short burst over a small backlog shows as a mail."
fix = "{fix_text} A longer backlog (`net.core.somaxconn` is its upper limit) only carries bursts: it does not make slow workers faster. Check: the EAGAIN lines end."
source = "unix(7), connect(2) EAGAIN; Linux net/unix/af_unix.c unix_stream_connect; nginx ngx_event_connect.c"
[text.share_text]
known = "{failed} of {requests} requests of {program} failed ({failed_ratio:%})"
unknown = "the share is unknown: no access log of {program} is read"
[text.fix_text]
php = "Find out why PHP's workers are busy (its slow log); if CPU and memory are free, raise `pm.max_children` of that pool, then `listen.backlog`."
other = "Find out what the application's workers wait for; if CPU and memory are free, start more of them (gunicorn `--workers`, uWSGI `processes`), then raise the backlog (gunicorn `--backlog`, uWSGI `listen`)."
---*/
with lines as (
  select host, program, ts, case
      when attrs['upstream'] like '%://unix:%' then coalesce(regexp_match(attrs['upstream'], '(unix:[^:"]+?[.]sock(et)?)([:/]|$)')[1], regexp_match(attrs['upstream'], '(unix:[^:"]+)')[1])
      when attrs['upstream'] is not null then coalesce(regexp_match(attrs['upstream'], '://([^/"]+)')[1], attrs['upstream'])
      when body like '% Unix domain socket %' then concat('unix:', regexp_match(body, 'Unix domain socket ([^ ]+) ')[1])
      else coalesce(regexp_match(body, '(attempt to connect to|remote server|body failed to) ([^ ]+)')[2], 'an upstream')
    end as upstream,
    'full' as variant
  from log
  where ts > $now - interval '60 seconds' and ts <= $now
    and (program = 'nginx' and (body like 'connect() to unix:% failed (11: %) while connecting to upstream')
      or program = 'apache' and (attrs['system_error'] like '(11)%' and body like 'AH02454: % attempt to connect to Unix domain socket %'))
),
failing as (
  select host, program, upstream, min(variant) as variant, count(*) as lines
  from lines
  group by host, program, upstream
  having count(*) >= 3 and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) > 3
),
answers as (
  select host, program, count(*) as requests,
    count(*) filter (where http_response_status_code in (500, 502, 503, 504) or http_response_status_code < 100
      or termination_state like 'S%' or termination_state like 's%' or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '60 seconds' and ts <= $now
  group by host, program
)
select f.host, f.program, f.upstream, f.variant, f.lines, a.requests, a.failed, cast(a.failed as double) / a.requests as failed_ratio,
  case when a.requests is null then 'unknown' else 'known' end as share_text,
  case when f.upstream like '%php%' or f.upstream like '%fpm%' then 'php' else 'other' end as fix_text,
  case when a.requests is null and f.lines >= 30 then 'page'
       when a.requests >= 10 and least(f.lines, a.failed) >= 0.2 * a.requests then 'page' else 'mail' end as class
from failing f
left join answers a on a.host = f.host and a.program = f.program
where a.requests is null or f.lines >= 0.002 * a.requests
