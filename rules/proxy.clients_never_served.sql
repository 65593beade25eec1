/*---
id = "proxy.clients_never_served"
title = "Clients that use a site get nothing but 4xx"
tier = "proxy"
class = "mail"
for = "10s"
every = "10s"
clear = "2m"
key = ["program", "site"]
prefers = ["proxy.clients_rejected"]
needs = ["request"]
when = [
  "select 1 from request where http_response_status_code >= 400 and http_response_status_code < 499 and tier in ('proxy', 'edge') and http_request_header_referer like 'http%' and ts > $now - interval '5 minutes' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '5 minutes' and ts <= $now and tier in ('proxy', 'edge')
group by host, source, coalesce(nullif(proxy_backend, ''), nullif(server_address, ''))
having count(*) >= 30 and count(*) filter (where http_response_status_code >= 400 and http_response_status_code < 499 and http_request_header_referer like 'http%') >= 15
  and count(*) filter (where http_response_status_code < 400 and http_request_header_referer like 'http%') <= 0.06 * count(*)
limit 1""",
]
explains = ["app.requests_stopped", "app.throughput_drop", "traffic.unusual"]
subject = "{site} on {host}"
summary = "{site} on {host}: {rejected} of {requests} requests in 5 minutes got 4xx ({rejected_ratio:%}), mostly {status}, most for {path}; {evidence_text}"
why = "{why_text}"
look_at = "`curl -v` of {path} from outside with the site's name. Which status, and whose: it is the proxy's own if upstream_status_code is NULL. `select http_response_status_code, url_path, count(*), count(distinct client_address) from request where host = '{host}' and ts > now() - interval '5 minutes' group by 1, 2 order by 3 desc`. What was deployed or reloaded last?"
silent_when = "weir has no past of this site in which it was served (else proxy.clients_rejected compares with it), so only requests of people count: of browsers that come from a page of one and the same site, which a page that fails for everybody still has in caches, other tabs and links. It wants 30 requests in 5 minutes with 95 % of them 4xx, and five client addresses with such a referer that were served nothing. Scanners, health checks, and APIs that answer 401 to programs send no such referer, and stay silent; so does a log without referers. It is a mail from ten addresses that come from the site's own pages, else a note: a site that was retired on purpose, or images that may not be linked from elsewhere, look the same. All bounds are defaults."
fix = "If a deploy or reload came last, roll it back first. 404: `root`, `alias` or a link to a release that is empty, a route or prefix that changed. 403: permissions on the path (`namei -l`), `deny` or `Require`, a firewall for applications. 401: a rotated key, an authentication service that cannot be reached, a header `Authorization` that is no longer passed on. 429: a limit that counts all clients as one, by a balancer's address (`set_real_ip_from`, `real_ip_header`). Check: `curl` gets the page. If it is meant to be so, judge this finding as not actionable."
source = "RFC 9110, 10.1.3 and 15.5; Referrer Policy, strict-origin-when-cross-origin"
[text.evidence_text]
own = "{people} client addresses come from its own pages, and none of them was served"
foreign = "{people} client addresses come from pages of {referring}, and none of them was served"
[text.why_text]
own = "Browsers that were on this site a moment ago, or still have its pages open, ask for more of it and get only client errors. No server error is counted anywhere, and since weir has not seen it work, nothing looks different from before."
foreign = "A site on another name sends its visitors' browsers here, for data, scripts or images, and they get only client errors. The site itself may look healthy in its own log."
[chart]
title = "Requests, and those answered with 4xx"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, count(*) as requests,
  count(*) filter (where http_response_status_code >= 400 and http_response_status_code < 499) as rejected
from request where tier in ('proxy', 'edge') and host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by 1 order by 1"""
---*/
with asked as (
  select host, coalesce(program, 'the proxy') as program, coalesce(nullif(proxy_backend, ''), nullif(server_address, ''), concat('requests in ', source)) as site,
    server_address, coalesce(client_address, '') as client, http_response_status_code as status, url_path,
    http_response_status_code >= 400 and http_response_status_code < 499 and http_response_status_code <> 408 as is_rejected,
    http_response_status_code >= 200 and http_response_status_code < 400 as is_served,
    case when user_agent_original like 'Mozilla/%' and user_agent_original not like '%bot%' and user_agent_original not like '%Bot%' and user_agent_original not like '%crawl%' and user_agent_original not like '%spider%'
      then regexp_match(lower(http_request_header_referer), '^https?://([^/:?]+)')[1] end as referring
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '5 minutes' and ts <= $now and http_response_status_code is not null
    and coalesce(url_path, '') not in ('/health', '/healthz', '/livez', '/readyz', '/healthcheck', '/health-check', '/-/healthy', '/-/ready', '/ping', '/nginx_status', '/server-status', '/haproxy_stats', '/favicon.ico', '/robots.txt')
    and coalesce(user_agent_original, '') not like 'ELB-HealthChecker%' and coalesce(user_agent_original, '') not like 'kube-probe%'
    and coalesce(user_agent_original, '') not like 'GoogleHC%' and coalesce(user_agent_original, '') not like 'Consul Health Check%'
),
sites as (
  select host, program, site, max(lower(server_address)) as own_name, count(*) as requests, count(*) filter (where is_rejected) as rejected
  from asked
  group by host, program, site
  having count(*) >= 30 and count(*) filter (where is_rejected) >= 0.95 * count(*)
),
clients as (
  select host, program, site, client, count(*) filter (where is_served) as served
  from asked group by host, program, site, client
),
-- One site's name, and no address: scanners write the address that they scan, or a search engine.
referrers as (
  select a.host, a.program, a.site, a.referring, count(*) as times, count(distinct a.client) as people,
    row_number() over (partition by a.host, a.program, a.site order by count(distinct a.client) desc, a.referring) as place
  from asked a
  join clients c on c.host = a.host and c.program = a.program and c.site = a.site and c.client = a.client and c.served = 0
  where a.is_rejected and a.referring is not null and a.referring like '%.%' and not regexp_like(a.referring, '^[0-9.]+$')
    and not regexp_like(a.referring, '(^|[.])(google|bing|yahoo|duckduckgo|baidu|yandex|ecosia|qwant|startpage|facebook|instagram|t|twitter|x|linkedin|reddit|pinterest)[.][a-z.]{2,6}$')
  group by a.host, a.program, a.site, a.referring
),
paths as (
  select host, program, site, url_path, row_number() over (partition by host, program, site order by count(distinct client) desc, url_path) as place
  from asked where is_rejected group by host, program, site, url_path
),
statuses as (
  select host, program, site, status, row_number() over (partition by host, program, site order by count(*) desc, status) as place
  from asked where is_rejected group by host, program, site, status
),
judged as (
  select s.host, s.program, s.site, s.requests, s.rejected, t.status, coalesce(p.url_path, 'a request that could not be read') as path, r.referring, r.people,
    case when s.own_name is null or s.own_name = r.referring or concat('www.', s.own_name) = r.referring or s.own_name = concat('www.', r.referring) then 'own' else 'foreign' end as side
  from sites s
  join referrers r on r.host = s.host and r.program = s.program and r.site = s.site and r.place = 1
  join paths p on p.host = s.host and p.program = s.program and p.site = s.site and p.place = 1
  join statuses t on t.host = s.host and t.program = s.program and t.site = s.site and t.place = 1
  where r.people >= 5 and r.times >= 15 and 2 * r.times >= s.rejected
)
select host, program, site, requests, rejected, cast(rejected as double) / requests as rejected_ratio, status, path, referring, people,
  case side when 'own' then 'own' else 'foreign' end as evidence_text, case side when 'own' then 'own' else 'foreign' end as why_text,
  case when side = 'own' and people >= 10 then 'mail' else 'note' end as class
from judged
