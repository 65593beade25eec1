/*---
id = "app.requests_stopped"
title = "Connections arrive, but no request is answered"
tier = "app"
class = "page"
for = "2s"
every = "5s"
clear = "15s"
key = ["program"]
prefers = [
  "disk.stuck", "pg.lock_pileup", "db.not_answering", "app.blocked_on_store", "app.down",
  "tcp.listen_overflow", "tcp.accept_queue_high", "log.ship_lag",
]
needs = ["request", "tcp_stat", "sock_stat", "net_dev", "listener", "log", "tcp_wait"]
when = [
  "select 1 from listener where tier in ('proxy', 'edge') and ts > $now - interval '5 seconds' and ts <= $now limit 1",
  """
select 1 from listener l
where l.tier in ('proxy', 'edge') and l.ts > $now - interval '5 seconds' and l.ts <= $now
  and not exists (
    select 1 from request r
    where r.host = l.host and r.http_response_status_code < 499 and r.ts > $now - interval '10 seconds' and r.ts <= $now
  )
limit 1""",
  """
select 1 from request
where ts > $now - interval '60 seconds' and ts <= $now - interval '10 seconds' and tier in ('proxy', 'edge')
group by host, program
having count(*) filter (where http_response_status_code < 499) >= 20
limit 1""",
]
explains = ["app.health_digest_missing", "app.throughput_drop", "traffic.unusual"]
subject = "{program} on {host}"
summary = "{program} on {host} answers nothing: its last successful request was {silent_seconds:.0} s ago (before: {rate_before:.1}/s), while {connections_text}{left_text}{queue_text}"
why = "A request is logged when it ends, so a proxy whose upstream hangs logs nothing until its timeout (60 s by default), and a failed TLS handshake is no request at all. Connections that continue without requests mean that clients still come and get nothing."
look_at = "Ask as a client would: `curl -v --max-time 5` at the proxy, then at the upstream. No response from either: the upstream hangs (its accept queue with `ss -ltn`, its stack dump, its database). The upstream answers: the proxy (`error.log`, worker processes in state D). The handshake fails: certificate, key, protocol versions.{line_text}"
silent_when = "Fewer than 20 successful requests in the 50 s before, a request answered within 10 s (or within three times the delay with which the log is written, `access_log … flush=`), three or more 5xx in that time (other findings name those), at least 60 % of the bytes per second that were sent before (large responses, slow readers), or connections that do not continue: neither more established sockets than before, nor new ones at half the rate of before and 2/s or more, nor an accept queue of the proxy in use. Visitors that go home, a load test that ends and a balancer that takes the host out close their connections. TCP health checks below 2/s do not count as visitors. A mail for the first 20 s of silence while a program of the host waits for a service behind it (`tcp_wait`): app.service_hangs needs some seconds more to name that one."
fix = "If the upstream hangs, take it out of the pool or restart it after saving a stack dump; shorten `proxy_read_timeout` so that clients get an error instead of nothing. If handshakes fail, restore the last certificate and key and reload. Check: requests appear in the log again."
source = "nginx ngx_http_log_request (written at the end of the request); kernel Tcp.PassiveOpens and CurrEstab; field report K6"
[text.connections_text]
established = "established connections rose from {established_before:.0} to {established:.0}"
opened = "{opened:.0} connections were opened in 10 s (before: {opened_before:.0})"
queued = "{queue_length} connections wait in the accept queue of {queue_process}"
[text.left_text]
none = ""
some = "; {left} clients gave up (499)"
[text.queue_text]
none = ""
known = "; {queue_length} connections wait for {queue_process} to accept them"
[text.line_text]
none = ""
known = " Newest line of its error log: {line}"
[chart]
title = "Requests per second"
unit = ""
sql = """
select date_trunc('second', ts) as ts, count(*) filter (where http_response_status_code < 499) as answered, count(*) as requests
from proxy_request where host = {host} and ts > $now - interval '10 minutes' and ts <= $now group by 1 order by 1"""
---*/
with totals as (
  select host, coalesce(program, 'the proxy') as program,
    count(*) filter (where http_response_status_code < 499 and ts <= $now - interval '10 seconds') as answered_before,
    count(*) filter (where http_response_status_code = 499 and ts > $now - interval '10 seconds') as left,
    count(*) filter (where http_response_status_code >= 500 and ts > $now - interval '10 seconds') as failed,
    max(ts) filter (where http_response_status_code < 499) as last_ts,
    -- How late the log is written: some buffer it.
    max(date_part('epoch', observed_ts) - date_part('epoch', ts)) as delay_seconds
  from proxy_request
  where ts > $now - interval '60 seconds' and ts <= $now
  group by 1, 2
),
silent as (
  select *, date_part('epoch', $now) - date_part('epoch', last_ts) as silent_seconds, cast(answered_before as double) / 50 as rate_before
  from totals
  where answered_before >= 20 and failed < 3
    and date_part('epoch', $now) - date_part('epoch', last_ts) >= greatest(10, 3 * coalesce(delay_seconds, 0))
),
places as (
  select distinct host, netns, coalesce(process_name, '') as process_name
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now and tier in ('proxy', 'edge')
),
opens as (
  select host, netns, sum(increase) filter (where ts > $now - interval '10 seconds') as opened,
    cast(sum(increase) filter (where ts <= $now - interval '15 seconds') as double) / 4.5 as opened_before
  from tcp_stat
  where counter = 'PassiveOpens' and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
sockets as (
  select host, netns, avg(tcp_established) filter (where ts > $now - interval '4 seconds') as established,
    avg(tcp_established) filter (where ts <= $now - interval '15 seconds') as established_before
  from sock_stat
  where ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
),
device_bytes as (
  select host, netns, device,
    cast(max(tx_bytes_total) filter (where is_new) - min(tx_bytes_total) filter (where is_new) as double)
      / nullif(date_part('epoch', max(ts) filter (where is_new)) - date_part('epoch', min(ts) filter (where is_new)), 0) as tx_now,
    cast(max(tx_bytes_total) filter (where is_old) - min(tx_bytes_total) filter (where is_old) as double)
      / nullif(date_part('epoch', max(ts) filter (where is_old)) - date_part('epoch', min(ts) filter (where is_old)), 0) as tx_before
  from (
    select *, ts > $now - interval '6 seconds' as is_new, ts <= $now - interval '15 seconds' as is_old
    from net_dev where ts > $now - interval '60 seconds' and ts <= $now
  ) samples
  group by host, netns, device
),
bytes as (
  -- Responses that clients read slowly are no silence.
  select host, netns, sum(tx_now) as tx_now, sum(tx_before) as tx_before
  from device_bytes
  group by host, netns
),
queues as (
  select host, netns, process_name, accept_queue_length, tier,
    row_number() over (partition by host, netns order by accept_queue_length desc, server_port) as place
  from listener
  where ts > $now - interval '3 seconds' and ts <= $now and accept_queue_length >= 3
),
lines as (
  select host, program, body, row_number() over (partition by host, program order by ts desc) as place
  from log
  where program in ('nginx', 'haproxy', 'apache') and severity in ('error', 'critical', 'alert', 'emergency')
    and ts > $now - interval '20 seconds' and ts <= $now
),
evidence as (
  select s.*, p.netns, o.opened, o.opened_before, k.established, k.established_before,
    q.accept_queue_length as queue_length, coalesce(q.process_name, 'a process') as queue_process, l.body as line,
    case when k.established >= k.established_before + greatest(3, 0.2 * k.established_before) then 'established'
      when o.opened >= 20 and o.opened >= 0.5 * o.opened_before then 'opened'
      when q.tier in ('proxy', 'edge') then 'queued' end as proof
  from silent s
  join places p on p.host = s.host
  left join opens o on o.host = p.host and o.netns = p.netns
  left join bytes b on b.host = p.host and b.netns = p.netns
  left join sockets k on k.host = p.host and k.netns = p.netns
  left join queues q on q.host = p.host and q.netns = p.netns and q.place = 1
  left join lines l on l.host = s.host and l.program = s.program and l.place = 1
  where b.tx_now is null or b.tx_now < 0.6 * b.tx_before
),
waits as (
  select distinct host from tcp_wait
  where side = 'client' and longest_seconds >= 2 and 2 * waiting >= connections and coalesce(tier, '') not in ('proxy', 'edge')
    and ts > $now - interval '10 seconds' and ts <= $now
),
ranked as (
  select *, row_number() over (partition by host, program order by opened desc nulls last, netns) as place
  from evidence where proof is not null
)
select r.host, program, silent_seconds, rate_before, left, opened, opened_before, established, established_before,
  queue_length, queue_process, line,
  case proof when 'established' then 'established' when 'opened' then 'opened' else 'queued' end as connections_text,
  case when left > 0 then 'some' else 'none' end as left_text,
  case when queue_length is not null and proof <> 'queued' then 'known' else 'none' end as queue_text,
  case when line is not null then 'known' else 'none' end as line_text,
  case when w.host is not null and silent_seconds < 20 then 'mail' else 'page' end as class
from ranked r
left join waits w on w.host = r.host
where place = 1
