/*---
id = "proxy.redirect_loop"
title = "Redirect loop: clients get the same redirect again"
tier = "proxy"
class = "mail"
for = "3s"
every = "5s"
clear = "30s"
key = ["program", "site"]
needs = ["request"]
when = [
  "select 1 from request where http_response_status_code in (301, 302, 303, 307, 308) and tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '30 seconds' and ts <= $now and tier in ('proxy', 'edge') and http_response_status_code in (301, 302, 303, 307, 308)
group by host, source, client_address, url_path
having count(*) >= 10
limit 1""",
]
explains = ["app.requests_stopped", "app.throughput_drop", "traffic.unusual"]
subject = "{site} on {host}"
summary = "{site} on {host}: redirect loop, {looping_clients} of {clients} client addresses got {status} for the same URL up to {most} times in 5 s, {redirects} redirects in 30 s; most for {path}; {past_text}"
why = "A client that follows a redirect asks again, gets the same redirect, and gives up after about 20 times: \"too many redirects\" instead of the page. Two places disagree about what is right: each sends the client to the other, or the application cannot see that the request has already arrived over TLS."
look_at = "`curl -sIL --max-redirs 5 https://NAME{path} | grep -i -e ^HTTP -e ^location`: which two addresses alternate? The same request at the application directly, with and without `X-Forwarded-Proto: https`."
silent_when = "Fewer than 6 redirects of one URL for one client address within 5 s, or fewer than 10 in 30 s, or one of its requests for that URL got another response; a path that was redirected before as well (more than half of its requests two, ten and sixty minutes ago), such as health checks and a port that sends everybody to https; without such a past only with three looping addresses, as a mail. It is a page when half of the client addresses loop. Defaults."
fix = "Roll back the last change of redirects first. TLS ends before the application: send `X-Forwarded-Proto` (nginx: `proxy_set_header X-Forwarded-Proto $scheme;`, or the balancer's own value where TLS ends there) and let the application trust that proxy. A CDN that speaks plain HTTP to this server (\"flexible\" TLS): switch it to full TLS. www and bare name, or with and without a final slash: keep one of the two redirects. Check: `curl -sIL` ends with 200. A 301 stays in browsers' caches: use 302 until it is right."
source = "RFC 9110, 15.4 (a client should detect loops); Fetch standard, 4.4 (20 redirects); nginx ngx_http_rewrite_module"
[text.past_text]
unknown = "no earlier requests to compare with"
known = "before: {past_redirects} of {past_requests} redirected"
[chart]
title = "Requests, and redirects"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, count(*) as requests, count(*) filter (where http_response_status_code in (301, 302, 303, 307, 308)) as redirects
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with recent as (
  select host, coalesce(program, 'the proxy') as program, coalesce(nullif(proxy_backend, ''), nullif(server_address, ''), concat('requests in ', source)) as site, ts,
    coalesce(client_address, '') as client, coalesce(url_path, '') as path, coalesce(url_query, '') as query,
    http_response_status_code as status, http_response_status_code in (301, 302, 303, 307, 308) as is_redirect
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
),
moments as (
  select host, program, site, client, path, query, date_bin(interval '5 seconds', ts) as moment, count(*) as redirects, min(ts) as first_ts
  from recent where is_redirect group by host, program, site, client, path, query, date_bin(interval '5 seconds', ts)
),
bursts as (
  select host, program, site, client, path, query, max(redirects) as most, min(first_ts) as first_ts from moments
  group by host, program, site, client, path, query having max(redirects) >= 6 and sum(redirects) >= 10
),
loops as (
  select r.host, r.program, r.site, r.client, r.path, max(r.status) as status, max(b.most) as most, count(*) as redirects
  from recent r
  join bursts b on b.host = r.host and b.program = r.program and b.site = r.site and b.client = r.client and b.path = r.path and b.query = r.query and r.ts >= b.first_ts
  group by r.host, r.program, r.site, r.client, r.path
  having bool_and(r.is_redirect)
),
past_rows as (
  select host, program, source, proxy_backend, server_address, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '150 seconds' and ts <= $now - interval '45 seconds'
  union all
  select host, program, source, proxy_backend, server_address, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '11 minutes' and ts <= $now - interval '10 minutes'
  union all
  select host, program, source, proxy_backend, server_address, url_path, http_response_status_code from request
  where tier in ('proxy', 'edge') and ts > $now - interval '61 minutes' and ts <= $now - interval '60 minutes'
),
past as (
  select host, coalesce(program, 'the proxy') as program, coalesce(nullif(proxy_backend, ''), nullif(server_address, ''), concat('requests in ', source)) as site,
    coalesce(url_path, '') as path, count(*) as requests, count(*) filter (where http_response_status_code in (301, 302, 303, 307, 308)) as redirects
  from past_rows group by 1, 2, 3, 4
),
visitors as (
  select host, program, site, count(distinct client) as clients from recent group by host, program, site
),
-- The past decides for each path; paths without a past need several clients that loop.
judged as (
  select l.host, l.program, l.site, count(distinct l.client) as looping_clients, sum(l.redirects) as redirects, max(l.most) as most, max(l.status) as status,
    count(distinct case when 2 * p.redirects <= p.requests then l.client end) as new_clients,
    count(distinct case when p.requests is null then l.client end) as unknown_clients,
    max(p.requests) as past_requests, max(case when p.requests is not null then p.redirects end) as past_redirects
  from loops l
  left join past p on p.host = l.host and p.program = l.program and p.site = l.site and p.path = l.path
  group by l.host, l.program, l.site
),
paths as (
  select host, program, site, path, row_number() over (partition by host, program, site order by sum(redirects) desc, path) as place
  from loops group by host, program, site, path
)
select j.host, j.program, j.site, j.looping_clients, v.clients, j.redirects, j.most, j.status, t.path, j.past_requests, j.past_redirects,
  case when j.past_requests is null then 'unknown' else 'known' end as past_text,
  j.new_clients > 0 or j.unknown_clients >= 3 as opens,
  case when j.new_clients > 0 and 2 * j.looping_clients >= v.clients then 'page' else 'mail' end as class
from judged j
join visitors v on v.host = j.host and v.program = j.program and v.site = j.site
join paths t on t.host = j.host and t.program = j.program and t.site = j.site and t.place = 1
where 10 * j.looping_clients >= v.clients
