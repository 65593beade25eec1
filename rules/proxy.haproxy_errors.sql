/*---
id = "proxy.haproxy_errors"
title = "HAProxy answers requests with 5xx"
tier = "app"
class = "mail"
for = "2s"
every = "2s"
clear = "15s"
key = ["backend"]
prefers = ["proxy.backend_down", "proxy.haproxy_slow"]
needs = ["proxy_stat", "request"]
when = "select 1 from proxy_stat where kind in ('backend', 'frontend') and (responses_5xx_increase > 0 or mode = 'tcp' and connect_errors_increase > 0) and ts > $now - interval '20 seconds' and ts <= $now limit 1"
explains = ["app.throughput_drop", "traffic.unusual"]
subject = "backend {backend} of {host}"
summary = "HAProxy on {host}: {errors} of {responses} responses of {backend} are 5xx ({error_ratio:%}) in 20 s, {origin_text}"
why = "{why_text}"
look_at = "`echo 'show stat' | socat stdio {source:sh}`: hrsp_5xx of each server shows whether the servers send the errors or HAProxy does, econ and eresp count what failed. `echo 'show errors' | socat stdio {source:sh}` shows the last invalid responses. For the reason of each request, HAProxy needs a log: `option httplog`, whose termination state shows it (sH: the server was too slow, sC: no connection, sQ: waited in the queue, SC: refused)."
silent_when = "Fewer than 5 errors or less than 5 % of the responses within 20 s. A backend whose requests are in a readable log: then the rules over the table request report it. It is a page from a fifth on. In mode tcp, fewer than 5 failed connections or fewer than a fifth of the sessions; a page from as many as sessions, since each may be tried again."
fix = "{fix_text} Check: responses_5xx_increase of proxy_stat falls to 0."
source = "HAProxy management guide 9.1, columns hrsp_5xx, econ, eresp; configuration manual 8.5"
[text.summary]
tcp = "HAProxy on {host}: {errors} failed connections to the servers of {backend} for {responses} sessions in 20 s{worst_text}"
[text.worst_text]
one = ", most by {worst}"
all = ""
[text.failures_text]
connect = "{connect_errors} connections to servers failed"
response = "{response_errors} responses failed or came too late"
queue = "{queued} requests wait in its queue"
other = "neither a failed connection nor a failed response is counted"
[text.origin_text]
servers = "sent by the servers{worst_text}"
haproxy = "answered by HAProxy itself ({failures_text})"
tcp = ""
no_backend = "answered by the frontend itself: no backend takes them"
[text.why_text]
servers = "The servers answer with an error, and HAProxy passes it on. HAProxy and the network are fine."
haproxy = "The servers did not answer in time, refused the connection, or none of them was free: HAProxy answers 503 or 504 itself."
tcp = "The servers refuse connections or do not answer to them. HAProxy tries again (`retries`), possibly at another server, so some of these clients are served late and the others not at all."
no_backend = "No backend got these requests. A rule denies them, or no `use_backend` and no `default_backend` fits."
[text.fix_text]
servers = "Read the error in the application's own log on {worst}; roll back its last deploy if the errors began with it. While only some servers send them, take those out: `echo 'disable server {backend}/NAME' | socat stdio {source:sh}` (level admin)."
haproxy = "Make the servers answer again: see which of them is slow or down (`show stat`). Do not raise `timeout server` first: requests would only wait longer."
tcp = "See which of them is down: `echo 'show servers conn {backend}' | socat stdio {source:sh}`. Give the `server` lines `check`, so that HAProxy leaves out the ones that do not listen, and `option redispatch`."
no_backend = "Add `default_backend` to the frontend, or the rule that is missing, then `haproxy -c -f /etc/haproxy/haproxy.cfg && systemctl reload haproxy`."
[chart]
title = "Responses with 5xx"
unit = ""
sql = """
select ts, responses_5xx_increase as errors, responses_increase as responses from proxy_stat
where host = {host} and proxy_name = {backend} and kind in ('backend', 'frontend') and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with recent as (
  select * from proxy_stat
  where ts > $now - interval '20 seconds' and ts <= $now and kind in ('frontend', 'backend', 'server') and (coalesce(mode, 'http') = 'http' or mode = 'tcp' and kind <> 'frontend')
),
sums as (
  select host, kind, proxy_name, coalesce(server_name, '') as server, max(source) as source,
    bool_or(mode = 'tcp') as is_tcp,
    sum(case when mode = 'tcp' then connect_errors_increase else responses_5xx_increase end) as errors,
    sum(case when mode = 'tcp' then sessions_increase else responses_increase end) as responses,
    sum(connect_errors_increase) as connect_errors, sum(response_errors_increase) as response_errors, max(queue_length) as queued
  from recent
  group by host, kind, proxy_name, coalesce(server_name, '')
),
servers as (
  select host, proxy_name, sum(errors) as errors, max(errors) as most, count(*) as members
  from sums where kind = 'server' group by host, proxy_name
),
worst as (
  select host, proxy_name, server, row_number() over (partition by host, proxy_name order by errors desc, server) as place
  from sums where kind = 'server' and errors > 0
),
backend_errors as (
  select host, source, sum(errors) as errors from sums where kind = 'backend' and is_tcp is not true group by host, source
),
frontend_errors as (
  select host, source, sum(errors) as errors, sum(responses) as responses, max(proxy_name) as proxy_name
  from sums where kind = 'frontend' group by host, source
),
answered as (
  select b.host, b.source, b.proxy_name as backend, b.errors, b.responses, b.connect_errors, b.response_errors, b.queued,
    coalesce(s.errors, 0) as server_errors, coalesce(s.most, 0) as most, coalesce(s.members, 0) as members, w.server as worst,
    case when b.is_tcp then 'tcp' when coalesce(s.errors, 0) > 0.5 * b.errors then 'servers' else 'haproxy' end as origin
  from sums b
  left join servers s on s.host = b.host and s.proxy_name = b.proxy_name
  left join worst w on w.host = b.host and w.proxy_name = b.proxy_name and w.place = 1
  where b.kind = 'backend'
  union all
  select f.host, f.source, f.proxy_name, f.errors - coalesce(b.errors, 0), f.responses, 0, 0, 0, 0, 0, 0, NULL, 'no_backend'
  from frontend_errors f
  left join backend_errors b on b.host = f.host and b.source = f.source
  where f.errors - coalesce(b.errors, 0) >= 5
),
logged as (
  select host, proxy_backend, count(*) as requests
  from request
  where ts > $now - interval '20 seconds' and ts <= $now and program = 'haproxy' and proxy_backend is not null
  group by host, proxy_backend
)
select a.host, a.source, a.backend, a.errors, a.responses, a.connect_errors, a.response_errors, a.queued, a.server_errors, a.worst,
  cast(a.errors as double) / greatest(a.responses, 1) as error_ratio,
  case a.origin when 'servers' then 'servers' when 'haproxy' then 'haproxy' when 'tcp' then 'tcp' else 'no_backend' end as origin_text,
  case a.origin when 'servers' then 'servers' when 'haproxy' then 'haproxy' when 'tcp' then 'tcp' else 'no_backend' end as why_text,
  case a.origin when 'servers' then 'servers' when 'haproxy' then 'haproxy' when 'tcp' then 'tcp' else 'no_backend' end as fix_text,
  case when a.most > 0.7 * a.server_errors and a.members > 1 then 'one' else 'all' end as worst_text,
  case when a.connect_errors >= a.response_errors and a.connect_errors > 0 then 'connect'
       when a.response_errors > 0 then 'response'
       when a.queued > 0 then 'queue' else 'other' end as failures_text,
  case when a.origin = 'tcp' then 'tcp' end as summary,
  case when a.errors >= case when a.origin = 'tcp' then 1.0 else 0.2 end * a.responses then 'page' else 'mail' end as class
from answered a
left join logged l on l.host = a.host and l.proxy_backend = a.backend
where a.errors >= 5 and a.errors >= case when a.origin = 'tcp' then 0.2 else 0.05 end * a.responses and l.requests is null
