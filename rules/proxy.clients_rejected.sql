/*---
id = "proxy.clients_rejected"
title = "Most clients get 4xx where they were served before"
tier = "proxy"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["program", "site"]
needs = ["request", "log"]
when = [
  "select 1 from request where http_response_status_code >= 400 and http_response_status_code < 499 and tier in ('proxy', 'edge') and ts > $now - interval '2 minutes' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '2 minutes' and ts <= $now and tier in ('proxy', 'edge')
group by host, source, coalesce(nullif(proxy_backend, ''), server_address)
having count(*) filter (where http_response_status_code >= 400 and http_response_status_code < 499) >= greatest(8, 0.15 * count(*))
  or count(*) filter (where http_response_status_code >= 400 and http_response_status_code < 499 and ts > $now - interval '30 seconds')
    >= greatest(15, 0.15 * count(*) filter (where ts > $now - interval '30 seconds'))
limit 1""",
]
explains = ["app.requests_stopped", "app.throughput_drop", "proxy.clients_never_served", "traffic.unusual"]
subject = "{site} on {host}"
summary = "{site} on {host}: {rejected_ratio:%} of usual requests get 4xx in {window} ({rejected} of {requests}), mostly {status}; before: {past_ratio:%}; {clients_text}, most for {path}{line_text}"
why = "Paths that answered with 2xx or 3xx until now answer with a client error for nearly every client. The clients did not all change at once: the configuration of the proxy, of what stands before it, or of the application did. No server error is counted anywhere, so this outage looks like healthy, fast traffic."
look_at = "`select http_response_status_code, url_path, count(*), count(distinct client_address) from request where host = '{host}' and ts > now() - interval '5 minutes' group by 1, 2 order by 3 desc`. What was deployed or reloaded last? Is the status the proxy's own (upstream_status_code is NULL) or the application's? Ask from outside: `curl -v` with the site's name."
silent_when = "What counts is the usual traffic: routes (method and path, numbers left out) that answered below 400 in the last hour (101, a WebSocket, as well), weighed by their share then, so a scanner's odd paths, a new broken link and a login wall weigh nothing. Each client address counts once per route, so one crawler, a rate limit on one client, or one client with old credentials is a small share; 429 and 401 need two client addresses, and 403 for a single address is a note if others came before (a bot that was blocked while no other client was there). Silent below 50 % of the usual traffic (25 % with five rejected clients, or with one address in all and ten lines of the proxy's log that name a cause), with fewer than 15 rejected requests in 30 s (in 10 s from 80 %, 8 in 2 minutes on a quiet site), without 20 (8) usual requests to compare with, or if the share was above a third of today's before. 499 and 5xx belong to other rules. A page from 50 %; all bounds are defaults."
fix = "{fix_text} If a deploy or reload came last, roll it back first. Check: `curl -v` of {path} from outside answers as before, and the share of 4xx is back."
source = "RFC 9110, 15.5; nginx ngx_http_request.c (495 to 497 are logged as 400), ngx_http_special_response.c; Apache ssl_engine_io.c; HAProxy documentation 8.5 (PR)"
[text.clients_text]
one = "its one client address (a balancer or proxy?) is hit"
many = "{rejected_clients} of {clients} client addresses are hit"
[text.line_text]
none = ""
known = ". {lines} times in its log: \"{line}\""
[text.fix_text]
bad_request = "400 for everybody: plain HTTP arrives at a TLS port (or TLS at a plain one), the proxy before this one sends no valid Host, a client certificate is required now (`ssl_verify_client`, `SSLVerifyClient`), the headers are too large (`large_client_header_buffers`, an ever growing cookie), or PROXY protocol is on at one side only. Compare `proxy_pass http/https`, `proxy_set_header Host`, and the balancer's protocol with this port."
login = "The users or keys that are accepted changed: a rotated signing key, an expired client secret, an authentication service that cannot be reached, a header `Authorization` that the proxy no longer passes on."
forbidden = "Permissions or access rules changed: the worker's user needs `x` on each directory of the path (`namei -l PATH`) and `r` on the files; look for `deny all`, `Require`, SELinux labels (`ls -Z`), a missing index file, or a firewall for applications."
missing = "The paths are gone: `root`/`alias`/`DocumentRoot` or a symbolic link points at an empty release, the route of the virtual host changed, or `proxy_pass` with a path (`/` at its end) sends another path to the application."
method = "The method is refused: `limit_except`, `<Limit>`, a static location that took over the application's path, or a redirect that turned POST into GET."
large = "The limit on a request's size is too small: nginx `client_max_body_size`, Apache `LimitRequestBody`, Envoy or application limits; 431 and 414: headers, cookies or URL above the buffer."
misdirected = "The connection's TLS name and the Host differ. Apache from 2.4.64 on rejects connections without a TLS name, which nginx sends to upstreams only if asked: `proxy_ssl_server_name on; proxy_ssl_name $host;`. Otherwise: a certificate for several names with HTTP/2 connections that clients share, or a proxy that sends another name than the Host."
limited = "A rate limit counts all clients as one, usually by a balancer's address: nginx `set_real_ip_from` and `real_ip_header`, HAProxy `option forwardfor` or PROXY protocol; or its rate is too small."
closed = "A rule of nginx closes these connections on purpose (`return 444`): usually a default server or a condition that now matches the site's own name. Compare `server_name` with the Host that arrives."
other = "Look for the status in the configuration of the proxy and of the application: which of them sends it is in upstream_status_code."
[chart]
title = "Requests, and those answered with 4xx"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, count(*) as requests,
  count(*) filter (where http_response_status_code >= 400 and http_response_status_code < 499) as rejected
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with slices as (
  select host, program, source, proxy_backend, server_address, ts, client_address, http_request_method, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '4 minutes' and ts <= $now
  union all
  select host, program, source, proxy_backend, server_address, ts, client_address, http_request_method, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '11 minutes' and ts <= $now - interval '10 minutes'
  union all
  select host, program, source, proxy_backend, server_address, ts, client_address, http_request_method, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes'
),
-- Read once: cells of a route, a client address and a status, by site and by log. A request that could not be
-- read, or whose Host is wrong, has another site's name or none, but is in the same log.
cells as (
  select host, coalesce(program, 'the proxy') as program,
    case when k.by_log then concat('requests in ', source) else coalesce(nullif(proxy_backend, ''), server_address) end as site,
    case when url_path is null then '' else concat(coalesce(http_request_method, ''), ' ',
      regexp_replace(regexp_replace(substr(url_path, 1, 120), '[0-9a-fA-F]{8}[0-9a-fA-F-]*|[0-9]+', '#', 'g'), '^((/[^/]*){3}).*$', '\1')) end as route,
    coalesce(client_address, '') as client, http_response_status_code as status,
    max(coalesce(url_path, 'a request that could not be read')) as path,
    count(*) filter (where ts > $now - interval '10 seconds') as now_10, count(*) filter (where ts > $now - interval '30 seconds') as now_30, count(*) filter (where ts <= $now - interval '45 seconds') as past_30,
    count(*) filter (where ts > $now - interval '2 minutes') as now_120, count(*) filter (where ts <= $now - interval '2 minutes') as past_120
  from slices cross join (select true as by_log union all select false as by_log) k
  where http_response_status_code is not null and (k.by_log or coalesce(nullif(proxy_backend, ''), nullif(server_address, '')) is not null)
    and coalesce(url_path, '') not in ('/health', '/healthz', '/livez', '/readyz', '/healthcheck', '/health-check', '/-/healthy', '/-/ready', '/ping', '/nginx_status', '/server-status', '/haproxy_stats')
  group by 1, 2, 3, 4, 5, 6
),
spread as (
  select w.seconds, host, program, site, route, client, status, path,
    case w.seconds when 10 then now_10 when 30 then now_30 else now_120 end as requests, case when w.seconds = 120 then past_120 else past_30 end as past,
    status >= 400 and status < 499 as is_rejected, status = 101 or status >= 200 and status < 400 as is_served
  from cells cross join (select 10 as seconds union all select 30 as seconds union all select 120 as seconds) w
),
-- The weight of a route is what it served in the past; in an outage older than the past it is the number of its requests.
summed as (
  select *, case when is_rejected then requests else 0 end as rejected,
    min(case when past > 0 then client end) over (partition by seconds, host, program, site) as first_client,
    max(case when past > 0 then client end) over (partition by seconds, host, program, site) as last_client,
    sum(past) over (partition by seconds, host, program, site) as site_past,
    sum(case when is_served then past else 0 end) over (partition by seconds, host, program, site) as site_served,
    sum(past) over (partition by seconds, host, program, site, route) as route_past,
    sum(case when is_served then past else 0 end) over (partition by seconds, host, program, site, route) as route_served,
    sum(case when is_rejected then past else 0 end) over (partition by seconds, host, program, site, route) as route_rejected,
    sum(case when is_served then requests else 0 end) over (partition by seconds, host, program, site) as served_now,
    sum(case when is_rejected and route = '' then requests else 0 end) over (partition by seconds, host, program, site) as unread_now
  from spread
),
-- Requests that could not be read have no route. They replace the usual ones if hardly one of these is left.
asked as (
  select seconds, host, program, site, route, client, status, path, requests, rejected, site_past, site_served, first_client = last_client as had_one_client,
    cast(case when route = '' then site_served when site_served > 0 then route_served else route_past end as double) as weight,
    case when route = '' or route_past = 0 then 0.0 else cast(route_rejected as double) / route_past end as past_ratio,
    sum(rejected) over (partition by seconds, host, program, site, status) as status_times,
    sum(rejected) over (partition by seconds, host, program, site, route) as route_times
  from summed
  where requests > 0 and case when route = '' then unread_now >= 15 and served_now <= 0.1 * unread_now and site_served >= 20
    when site_served > 0 then route_served > 0 else route_past > 0 end
),
clients as (
  select seconds, host, program, site, route, client, max(weight) as weight, max(past_ratio) as past_ratio, sum(requests) as requests, sum(rejected) as rejected,
    cast(sum(rejected) as double) / sum(requests) as rejected_ratio, max(site_past) as site_past, max(site_served) as site_served, bool_and(had_one_client) as had_one_client,
    first_value(status order by case when rejected > 0 then status_times else 0 end desc, status) as status,
    max(case when rejected > 0 then status_times else 0 end) as status_times,
    first_value(path order by rejected desc, path) as path, max(route_times) as route_times,
    row_number() over (partition by seconds, host, program, site, client order by route) as client_place,
    row_number() over (partition by seconds, host, program, site, client, sum(rejected) > 0 order by route) as hit_place
  from asked
  group by seconds, host, program, site, route, client
),
routes as (
  select seconds, host, program, site, route, max(weight) as weight, max(past_ratio) as past_ratio, avg(rejected_ratio) as rejected_ratio,
    sum(requests) as requests, sum(rejected) as rejected, max(site_past) as site_past, max(site_served) as site_served, bool_and(had_one_client) as had_one_client,
    count(*) filter (where client_place = 1) as clients, count(*) filter (where hit_place = 1 and rejected > 0) as rejected_clients,
    first_value(status order by status_times desc, status) as status, max(status_times) as status_times,
    first_value(path order by rejected desc, path) as path, max(route_times) as route_times
  from clients
  group by seconds, host, program, site, route
),
sites as (
  select seconds, host, program, site, sum(weight * rejected_ratio) / sum(weight) as rejected_ratio, sum(weight * past_ratio) / sum(weight) as past_ratio,
    sum(requests) as requests, sum(rejected) as rejected, sum(clients) as clients, sum(rejected_clients) as rejected_clients,
    max(site_past) as past_requests, max(site_served) as past_served, bool_and(had_one_client) as had_one_client,
    first_value(status order by status_times desc, status) as status, first_value(path order by route_times desc, path) as path
  from routes
  group by seconds, host, program, site
),
hit as (
  select *, row_number() over (partition by host, program, site order by case seconds when 30 then 0 when 10 then 1 else 2 end) as place
  from sites
  where (seconds = 10 and rejected >= 15 and rejected_ratio >= 0.8 and past_requests >= 20 or seconds = 30 and rejected >= 15 and past_requests >= 20 or seconds = 120 and rejected >= 8 and past_requests >= 8)
    and (rejected_ratio >= 0.5 and 2 * rejected_clients >= clients or rejected_ratio >= 0.25 and (rejected_clients >= 5 and 4 * rejected_clients >= clients or had_one_client and clients = 1))
    and not (status in (401, 407, 429) and rejected_clients < 2)
),
judged as (
  select *, max(case when site not like 'requests in %' then rejected else 0 end) over (partition by host, program) as rejected_of_a_site
  from hit where place = 1
),
spoken as (
  select host, program, substr(message_template, 1, 140) as line,
    case when regexp_like(message_template, '[(]13: |forbidden|directory index|AH(00035|00036|00037|01276|01630|01797)') then 'forbidden'
      when regexp_like(message_template, '[(]2: |AH00(127|128|130)') then 'missing'
      when message_template like 'limiting %' then 'limited' when message_template like '%too large%' then 'large'
      when regexp_like(message_template, 'AH02032|AH02033') then 'misdirected'
      when regexp_like(message_template, 'AH016(17|18)') then 'login'
      else 'bad_request' end as kind, count(*) as lines
  from log
  where ts > $now - interval '60 seconds' and ts <= $now and message_template is not null
    and (program = 'nginx' and (message_template like '%(13: Permission denied)%' or message_template like '%(2: No such file or directory)%' and message_template not like '%upstream%'
        or message_template like 'client sent %' or message_template like 'access forbidden by rule%' or message_template like 'directory index of %'
        or message_template like 'client intended to send too large body%' or message_template like 'limiting %' or message_template like 'rewrite or internal redirection cycle%'
        or message_template like 'broken header: %')
      or program = 'apache' and regexp_like(message_template, 'AH(00035|00036|00037|00127|00128|00130|00135|00524|00529|00548|00550|00558|00561|00565|01220|01276|01617|01618|01623|01630|01797|02032|02033|02261|02567|03490):?'))
  group by 1, 2, 3, 4
),
lines as (
  select host, program, kind, line, lines, row_number() over (partition by host, program, kind order by lines desc, line) as place from spoken
),
named as (
  select j.*,
  case when j.status in (400, 495, 496, 497) then 'bad_request' when j.status in (401, 407) then 'login' when j.status = 403 then 'forbidden'
    when j.status in (404, 410) then 'missing' when j.status = 405 then 'method' when j.status in (413, 414, 431, 494) then 'large'
    when j.status = 421 then 'misdirected' when j.status = 429 then 'limited' when j.status = 444 then 'closed' else 'other' end as kind
  from judged j
)
select j.host, j.program, j.site, j.requests, j.rejected, j.clients, j.rejected_clients, j.rejected_ratio, j.past_ratio, j.status, j.path, l.line, l.lines,
  case j.seconds when 10 then '10 s' when 30 then '30 s' else '2 minutes' end as window,
  case when j.clients = 1 then 'one' else 'many' end as clients_text,
  case when l.line is null or l.lines < 3 then 'none' else 'known' end as line_text,
  case j.kind when 'bad_request' then 'bad_request' when 'login' then 'login' when 'forbidden' then 'forbidden' when 'missing' then 'missing' when 'method' then 'method'
    when 'large' then 'large' when 'misdirected' then 'misdirected' when 'limited' then 'limited' when 'closed' then 'closed' else 'other' end as fix_text,
  j.past_served > 0 and 3 * j.past_ratio <= j.rejected_ratio as opens,
  case when j.status in (403, 444) and j.clients = 1 and not j.had_one_client then 'note'
    when j.rejected_ratio >= 0.5 then 'page' else 'mail' end as class
from named j
left join lines l on l.host = j.host and l.program = j.program and l.kind = j.kind and l.place = 1
where (j.site not like 'requests in %' or 2 * j.rejected_of_a_site < j.rejected)
  -- One address is a balancer or one odd client: the proxy's own words decide.
  and (j.rejected_ratio >= 0.5 or j.rejected_clients >= 5 or l.lines >= 10)
