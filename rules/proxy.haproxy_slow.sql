/*---
id = "proxy.haproxy_slow"
title = "Servers behind HAProxy answer slowly"
tier = "app"
class = "mail"
for = "4s"
every = "4s"
clear = "20s"
key = ["backend"]
prefers = ["app.slow"]
needs = ["proxy_stat", "request"]
when = "select 1 from proxy_stat where kind = 'server' and sessions > 0 and sessions_increase <= 2 * sessions and mode = 'http' and ts > $now - interval '16 seconds' and ts <= $now limit 1"
explains = [
  "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_backlog", "proxy.haproxy_errors",
  "proxy.haproxy_maxconn", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.listen_overflow",
  "proxy.upstream_hangs",
]
subject = "backend {backend} of {host}"
summary = "{who} of backend {backend} on {host} took {mean_seconds:duration} per request over 16 s ({past_text}): {in_progress:.1} in progress, {finished} finished{slowest_text}"
why = "Requests in progress divided by requests finished per second is the time that one takes (Little's law). It needs no log, and it also counts requests that never finish. HAProxy only waits for the servers."
look_at = "The application behind: its CPU, its workers, and what it waits for: a database (db.not_answering, mysql.lock_pileup, pg.lock_pileup, redis.blocked), another service, a disk. rtime in `echo 'show stat' | socat stdio {source:sh}` is the mean over the last 1,024 requests, so it follows late when there are few."
silent_when = "Less than 1 s per request, less than three times the median of the last 10 minutes, or fewer than 2 requests in progress on average. One server is compared with its siblings, without history: at least 1 s, five times their time, three times their mean until the response begins (tunnels and WebSockets last long, but begin at once), 3 requests finished and 10 at the siblings. Without 2 minutes of history it is a finding only if requests fail as well, because long polls and event streams are slow on purpose. A backend whose requests are in a readable log: app.slow reports it."
fix = "Find what the application waits for, and fix that; more connections or a higher `timeout server` only let more visitors wait. While only one server is slow, take it out: `echo 'set server {backend}/NAME state drain' | socat stdio {source:sh}` (level admin). Check: mean_seconds of this finding falls."
source = "Little's law; HAProxy management guide 9.1, columns scur, stot"
[chart]
title = "Requests in progress at the servers"
unit = ""
sql = """
select ts, sum(sessions) as in_progress from proxy_stat
where host = {host} and proxy_name = {backend} and kind = 'server' and ts > $now - interval '15 minutes' and ts <= $now group by ts order by ts"""
---*/
with spans as (
  select host, source, proxy_name as backend, server_name, sessions, sessions_increase, interval_seconds, client_aborts_increase,
    response_seconds, responses_5xx_increase, response_errors_increase, ts > $now - interval '16 seconds' as is_recent,
    ts, date_bin(interval '16 seconds', ts) as slice
  from proxy_stat
  where kind = 'server' and mode = 'http' and ts > $now - interval '10 minutes' and ts <= $now and interval_seconds > 0
),
servers as (
  select host, backend, server_name, max(source) as source,
    sum(sessions * interval_seconds) / sum(interval_seconds) as in_progress, sum(sessions_increase) as finished,
    last_value(response_seconds order by ts) as response_seconds,
    sum(interval_seconds) as seconds, coalesce(sum(responses_5xx_increase), 0) + coalesce(sum(response_errors_increase), 0) as failures, coalesce(sum(client_aborts_increase), 0) as aborts
  from spans where is_recent
  group by host, backend, server_name
),
ranked as (
  select *, row_number() over (partition by host, backend order by in_progress desc) as place, count(*) over (partition by host, backend) as members,
    in_progress * seconds / greatest(finished, 0.5) as own_seconds,
    sum(finished) over (partition by host, backend) - finished as sibling_finished,
    (sum(in_progress) over (partition by host, backend) - in_progress) * seconds
      / greatest(sum(finished) over (partition by host, backend) - finished, 0.5) as sibling_seconds,
    (sum(response_seconds) over (partition by host, backend) - response_seconds)
      / greatest(count(*) over (partition by host, backend) - 1, 1) as sibling_response_seconds
  from servers
),
outliers as (
  -- Siblings need no history. Tunnels last long, but their responses begin at once.
  select host, backend, server_name, in_progress as own_in_progress, finished as own_finished, own_seconds, sibling_seconds, row_number() over (partition by host, backend order by own_seconds desc) as slow_place
  from ranked
  where members >= 2 and own_seconds >= 1.0 and finished >= 3 and in_progress >= 1 and sibling_finished >= 10
    and own_seconds >= 5 * sibling_seconds and response_seconds >= 0.05 and response_seconds >= 3 * sibling_response_seconds
),
now_slow as (
  select host, backend, max(source) as source, sum(in_progress) as in_progress, sum(finished) as finished, max(seconds) as seconds, sum(failures) as failures, sum(aborts) as aborts,
    max(case when place = 1 then server_name end) as slowest, max(case when place = 1 then in_progress end) as slowest_in_progress, max(members) as members
  from ranked
  group by host, backend
),
past_slices as (
  select host, backend, slice, sum(sessions * interval_seconds) / greatest(sum(sessions_increase), 0.5) as mean_seconds
  from spans where not is_recent
  group by host, backend, slice
),
past as (
  select host, backend, approx_percentile_cont(mean_seconds, 0.5) as mean_seconds, count(*) as slices
  from past_slices
  group by host, backend
),
errors as (
  select host, proxy_name as backend, sum(responses_5xx_increase) as errors
  from proxy_stat
  where kind = 'backend' and ts > $now - interval '16 seconds' and ts <= $now
  group by host, proxy_name
),
logged as (
  select host, proxy_backend, count(*) as requests
  from request
  where ts > $now - interval '20 seconds' and ts <= $now and program = 'haproxy' and proxy_backend is not null
  group by host, proxy_backend
),
judged as (
  select n.*, o.server_name as slow_server, o.own_in_progress, o.own_finished, o.own_seconds, o.sibling_seconds, p.mean_seconds as past_seconds, coalesce(p.slices, 0) as slices, coalesce(e.errors, 0) + n.failures as failed,
    n.in_progress * n.seconds / greatest(n.finished, 0.5) as mean_seconds
  from now_slow n
  left join past p on p.host = n.host and p.backend = n.backend
  left join outliers o on o.host = n.host and o.backend = n.backend and o.slow_place = 1
  left join errors e on e.host = n.host and e.backend = n.backend
  left join logged l on l.host = n.host and l.proxy_backend = n.backend
  where l.requests is null and n.seconds >= 8
)
select host, backend, source, coalesce(own_in_progress, in_progress) as in_progress, coalesce(own_finished, finished) as finished, failed, aborts, past_seconds, sibling_seconds,
  case when slow_server is null then 'servers' else concat('server ', slow_server) end as who,
  coalesce(own_seconds, mean_seconds) as mean_seconds,
  case when slow_server is not null then concat('its siblings ', cast(round(sibling_seconds * 1000) as bigint), ' ms')
       when slices >= 7 then concat(cast(round(past_seconds * 1000) as bigint), ' ms in the 10 minutes before') else 'no history yet' end as past_text,
  case when slow_server is null and members > 1 and slowest_in_progress > 0.7 * in_progress then concat('; most at ', slowest) else '' end as slowest_text,
  case when failed >= 3 or aborts >= 5 then 'page' else 'mail' end as class
from judged
where slow_server is not null or in_progress >= 2 and mean_seconds >= 1.0
  and ((slices >= 7 and mean_seconds >= 3 * past_seconds) or (slices < 7 and failed >= 5))
