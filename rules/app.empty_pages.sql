/*---
id = "app.empty_pages"
title = "Empty or truncated pages with status 200"
tier = "app"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["program", "site"]
needs = ["request"]
when = [
  """
select 1 from request
where ts > $now - interval '30 seconds' and ts <= $now and tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET'
group by host, source
having count(*) >= 15 and 4 * count(*) filter (where coalesce(response_body_bytes, response_bytes, 0) < 2000) >= count(*)
limit 1""",
  # Many small responses are usual at a beacon: there, more of them than before.
  """
select 1 from (
  select 0 as slice, host, source, case when coalesce(response_body_bytes, response_bytes, 0) < 2000 then 1.0 else 0.0 end as small from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '10 seconds' and ts <= $now
  union all
  select 1 as slice, host, source, case when coalesce(response_body_bytes, response_bytes, 0) < 2000 then 1.0 else 0.0 end as small from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '60 seconds' and ts <= $now - interval '50 seconds'
  union all
  select 2 as slice, host, source, case when coalesce(response_body_bytes, response_bytes, 0) < 2000 then 1.0 else 0.0 end as small from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '610 seconds' and ts <= $now - interval '600 seconds'
  union all
  select 3 as slice, host, source, case when coalesce(response_body_bytes, response_bytes, 0) < 2000 then 1.0 else 0.0 end as small from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '3610 seconds' and ts <= $now - interval '3600 seconds'
) samples
group by host, source
having count(*) filter (where slice = 0) < 3000
  or avg(small) filter (where slice = 0) >= 0.1 + least(coalesce(avg(small) filter (where slice = 1), 1.0), coalesce(avg(small) filter (where slice = 2), 1.0), coalesce(avg(small) filter (where slice = 3), 1.0))
limit 1""",
]
explains = ["app.requests_stopped", "app.throughput_drop", "traffic.unusual"]
subject = "{site} on {host}"
summary = "{site} on {host}: {empty_ratio:%} of the usual pages have status 200 and {what_text} in 30 s ({empty} of {requests} requests), such as {path}: {size} bytes, usually {usual:.0}; before: {past_ratio:%}"
why = "Status 200 says that all is well, so no check of status codes and no error rate shows it, and caches keep the empty page. The program that makes the page ended early without an error status, or was never told which page to make."
look_at = "`curl -s -o /dev/null -w '%{{http_code}} %{{size_download}}\\n' https://NAME{path}`, through the proxy and at the application directly. The application's own error log (PHP: `error_log`, `log_errors = On`). What was deployed or reloaded last?"
silent_when = "What counts are the usual pages: GET requests with status 200 of routes (path, numbers left out) that had a body two, ten or sixty minutes ago, weighed by their share then. A page is empty with at most 32 bytes (an empty body has a few where it is chunked or compressed), and cut short below a tenth of its usual size of at least 500 bytes (the smallest tenth of its responses, in the calmest of those times). Silent below half of the usual pages, below 15 empty responses in 30 s, with fewer than 20 usual requests to compare with, if no size is logged, or if a third of that share was empty before. A smaller but whole page (a new compression, a client-side page) looks cut short, so only empty pages alert at once, from routes of at least 500 bytes. Defaults."
fix = "{fix_text} Then empty the caches in front (proxy, CDN), which keep a response with status 200. Check: sizes in the chart are back."
source = "RFC 9110, 15.3.1 (a response 200 has the content that was asked for); nginx ngx_http_fastcgi_module (SCRIPT_FILENAME); github.com/nginxinc/nginx-wiki #235, cdevroe/unmark #121, thgh/pilon #7, sabre-io/Baikal #690"
[text.what_text]
empty = "no body"
short = "less than a tenth of their size"
[text.fix_text]
empty = "Roll back the last change, of the web server's configuration first. nginx before an old PHP-FPM: without `fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name;` every page is empty with status 200 (PHP 8 answers 404; `fastcgi.conf` has the line, `fastcgi_params` has not). A program that ends early: its error log, its memory limit."
short = "Roll back the last change. If the page shows an error with status 200 (PHP: `display_errors = On` does that), let the application answer 500: balancers, caches and alerts rely on it."
[chart]
title = "Size of responses with status 200, median"
unit = "B"
sql = """
select date_bin(interval '10 seconds', ts) as ts, percentile(coalesce(response_body_bytes, response_bytes, 0), 0.5) as median
from request
where host = {host} and tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET'
  and coalesce(nullif(proxy_backend, ''), nullif(server_address, ''), concat('requests in ', source)) = {site}
  and ts > $now - interval '15 minutes' and ts <= $now
group by 1 order by 1"""
---*/
with slices as (
  select 0 as slice, host, program, source, proxy_backend, server_address, url_path, client_address, response_body_bytes, response_bytes from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '30 seconds' and ts <= $now
  union all
  select 1 as slice, host, program, source, proxy_backend, server_address, url_path, client_address, response_body_bytes, response_bytes from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '150 seconds' and ts <= $now - interval '45 seconds'
  union all
  select 2 as slice, host, program, source, proxy_backend, server_address, url_path, client_address, response_body_bytes, response_bytes from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '11 minutes' and ts <= $now - interval '10 minutes'
  union all
  select 3 as slice, host, program, source, proxy_backend, server_address, url_path, client_address, response_body_bytes, response_bytes from request
  where tier in ('proxy', 'edge') and http_response_status_code = 200 and http_request_method = 'GET' and ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes'
),
-- Apache writes `-` for no byte. A client that went away leaves a short response, so the largest of its responses counts.
cells as (
  select slice, host, coalesce(program, 'the proxy') as program,
    coalesce(nullif(proxy_backend, ''), nullif(server_address, ''), concat('requests in ', source)) as site,
    url_path, client_address, count(*) as requests,
    max(coalesce(response_body_bytes, response_bytes, case when program = 'apache' then 0 end)) as size
  from slices
  where url_path is not null
    and url_path not in ('/health', '/healthz', '/livez', '/readyz', '/healthcheck', '/health-check', '/-/healthy', '/-/ready', '/ping', '/nginx_status', '/server-status', '/haproxy_stats')
  group by 1, 2, 3, 4, 5, 6
),
routes as (
  select slice, host, program, site, url_path as path,
    regexp_replace(regexp_replace(substr(url_path, 1, 120), '[0-9a-fA-F]{8}[0-9a-fA-F-]*|[0-9]+', '#', 'g'), '^((/[^/]*){3}).*$', '\1') as route,
    size, requests
  from cells
  where size is not null
),
sizes as (
  select host, program, site, route, slice, sum(requests) as requests, percentile(size, 0.1) as size
  from routes where slice > 0 group by host, program, site, route, slice
),
usual as (
  select host as usual_host, program as usual_program, site as usual_site, route as usual_route, sum(requests) as weight, max(size) as usual
  from sizes group by host, program, site, route having max(size) > 0
),
judged as (
  select slice, host, program, site, path, route, size, requests, weight, usual,
    case when size = 0 or usual >= 500 and 10 * size < usual then requests else 0 end as empty,
    case when size <= 32 and usual >= 500 then requests else 0 end as without_body
  from routes
  join usual on usual_host = host and usual_program = program and usual_site = site and usual_route = route
),
by_route as (
  select host, program, site, route, max(weight) as weight,
    coalesce(sum(requests) filter (where slice = 0), 0) as requests, coalesce(sum(empty) filter (where slice = 0), 0) as empty,
    coalesce(sum(without_body) filter (where slice = 0), 0) as without_body,
    cast(coalesce(sum(empty) filter (where slice > 0), 0) as double) / max(weight) as past_ratio
  from judged
  group by host, program, site, route
),
sites as (
  select host, program, site, sum(weight * (cast(empty as double) / requests)) / sum(weight) as empty_ratio,
    sum(weight * (cast(without_body as double) / requests)) / sum(weight) as without_body_ratio,
    sum(weight * past_ratio) / sum(weight) as past_ratio, sum(requests) as requests, sum(empty) as empty, sum(weight) as past_requests
  from by_route
  where requests > 0
  group by host, program, site
),
examples as (
  select host, program, site, path, size, usual, row_number() over (partition by host, program, site order by empty desc, path) as place
  from judged where slice = 0
)
select s.host, s.program, s.site, s.empty_ratio, s.past_ratio, s.requests, s.empty, e.path, e.size, e.usual,
  case when 2 * s.without_body_ratio >= s.empty_ratio or e.size <= 32 then 'empty' else 'short' end as what_text,
  case when 2 * s.without_body_ratio >= s.empty_ratio or e.size <= 32 then 'empty' else 'short' end as fix_text,
  3 * s.past_ratio <= s.empty_ratio as opens,
  case when s.without_body_ratio >= 0.5 then 'page' else 'mail' end as class
from sites s
join examples e on e.host = s.host and e.program = s.program and e.site = s.site and e.place = 1
where s.empty >= 15 and s.empty_ratio >= 0.5 and s.past_requests >= 20
