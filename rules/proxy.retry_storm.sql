/*---
id = "proxy.retry_storm"
title = "Overload: load multiplies, responses collapse"
tier = "edge"
class = "page"
for = "3s"
every = "5s"
clear = "30s"
key = ["site"]
prefers = ["app.down", "app.crash_loop", "db.not_answering", "pg.lock_pileup", "disk.stuck"]
needs = ["request", "listener"]
when = [
  "select 1 from request where http_response_status_code >= 499 and ts > $now - interval '15 seconds' and ts <= $now limit 1",
  """
select 1 from request
where ts > $now - interval '15 seconds' and ts <= $now and tier in ('proxy', 'edge')
group by host
having count(*) filter (where coalesce(http_response_status_code, 599) >= 499) >= 30
  and count(*) filter (where coalesce(http_response_status_code, 599) >= 499) >= 0.3 * count(*)
limit 1""",
]
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "client.aborts_499", "cpu.saturated", "lb.too_few_healthy", "proxy.bad_gateway",
  "proxy.haproxy_queue", "proxy.retry_amplification", "proxy.upstream_errors",
  "proxy.upstream_timeout", "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.close_wait_leak", "tcp.listen_overflow", "traffic.unusual", "unix.accept_queue_full",
  "slo.burning", "proxy.upstream_hangs",
]
subject = "{site} on {host}"
summary = "{site} on {host} is overloaded: {load_rate:.0} requests/s, {load_ratio:.1}× the {load_before:.0}/s of before, but only {good_rate:.1}/s succeed (before: {good_before:.0}/s); {who_text}"
why = "Clients, SDKs, proxies and crawlers repeat what failed, so an overload makes its own load: the application spends its time on requests whose clients have left, answers fewer, and more are repeated. This lasts after the trigger (a slow minute, a deploy, a cold cache) is gone. A metastable state does not end by itself: only less load ends it."
look_at = "What failed first, a minute before: `select date_bin(interval '5 seconds', ts), count(*), count(*) filter (where http_response_status_code < 499) from request … group by 1 order by 1`. Who repeats: `select client_address, user_agent_original, count(*) … group by 1, 2 order by 3 desc`. Whether the trigger is still there (database, deploy, cache)."
silent_when = "Load below 2.5× of the busiest of six slices of 15 s of the last hour that were healthy (95 % of at least 15 requests succeeded, and they came over at least 10 s), at least 70 % of the successes of that time, fewer than 30 failed requests in 15 s, fewer failed than succeeded, or fewer than 30 % of the failed ones late (504, 499, a 503 without a time, or after 0.5 s): an application that is down fails at once. Failed means 5xx, no response, or 499 (the client left). 429 and other 4xx are responses: shedding load ends this finding. The load counts each try at an upstream. Scanners and brute force get 4xx from a healthy site. 2.5× and 70 % are opinions."
fix = "Shed load first, then look for the trigger: {shed_text} Let in what the site can answer ({good_before:.0}/s) and raise it in steps. Restarting or adding workers alone does not help while the retries continue; cold caches make it worse. Afterwards: clients retry with exponential back-off and jitter, at most 3 times, and with a retry budget (10 % of their requests); proxies `proxy_next_upstream_tries 2` (HAProxy `retries 1`); deadlines shorter than the client's. Check: successes per second rise while requests per second fall."
source = "Bronson et al., Metastable failures in distributed systems (HotOS 2021); Google SRE book, Addressing cascading failures; AWS builders' library, Timeouts, retries and backoff with jitter"
[text.who_text]
clients = "each of {clients} clients sends {per_client_ratio:.1}× as many requests as before, so they are retries"
proxy = "each request is tried {tries:.1} times at the upstreams, so they are the proxy's retries"
crowd = "{clients} clients instead of {clients_before}, so it is new load, or clients that come back from other addresses"
few = "all come from {clients} addresses, so retries cannot be told from new visitors"
[text.shed_text]
nginx = "`limit_req_zone $server_name zone=shed:1m rate={good_limit}r/s;` with `limit_req zone=shed burst=50 nodelay; limit_req_status 429;` in the location, or `max_conns=` in each `server` line of the upstream, then `nginx -s reload`; answer the rest with 429 and `Retry-After`."
haproxy = "`http-request deny deny_status 429 if { fe_sess_rate gt {good_limit} }` in the frontend, `maxconn` and a `timeout queue 1s` in the backend."
weir = "fewer concurrent requests per backend in the section [edge] of weir.toml, a short queue, and 429 with `Retry-After` for the rest."
[chart]
title = "Requests and successes"
unit = ""
sql = """
select date_bin(interval '5 seconds', ts) as ts, count(*) as requests, count(*) filter (where http_response_status_code < 499) as succeeded
from proxy_request where host = {host} and coalesce(pool, concat('requests in ', source)) = {site} and ts > $now - interval '20 minutes' and ts <= $now
group by 1 order by 1"""
---*/
with slices as (
  select 0 as slice, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code as status from proxy_request
  where ts > $now - interval '15 seconds' and ts <= $now
  union all select 1, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '35 seconds' and ts <= $now - interval '20 seconds'
  union all select 2, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '75 seconds' and ts <= $now - interval '60 seconds'
  union all select 3, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '195 seconds' and ts <= $now - interval '180 seconds'
  union all select 4, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '435 seconds' and ts <= $now - interval '420 seconds'
  union all select 5, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '915 seconds' and ts <= $now - interval '900 seconds'
  union all select 6, ts, host, pool, source, program, client_address, upstream_tries, duration_seconds, http_response_status_code from proxy_request
  where ts > $now - interval '3615 seconds' and ts <= $now - interval '3600 seconds'
),
counted as (
  select slice, host, coalesce(pool, concat('requests in ', source)) as site, max(program) as program, count(*) as requests,
    sum(greatest(coalesce(upstream_tries, 1), 1)) as load,
    count(*) filter (where status < 499) as good,
    -- An application that is gone fails at once, an overloaded one late.
    count(*) filter (where coalesce(status, 504) >= 499
      and (coalesce(status, 504) in (499, 504) or duration_seconds >= 0.5 or status = 503 and duration_seconds is null)) as late,
    count(distinct client_address) as clients, max(ts) - min(ts) as span
  from slices
  group by 1, 2, 3
),
before as (
  select host, site, max(load) as load_15, max(good) as good_15, max(clients) as clients_before,
    max(cast(requests as double) / greatest(clients, 1)) as per_client_before,
    max(cast(load as double) / requests) as tries_before
  from counted
  -- A slice that began before the log did, or before weir, has too few requests.
  where slice > 0 and requests >= 15 and good >= 0.95 * requests and span >= interval '10 seconds'
  group by host, site
),
steps as (
  select host, netns, server_address, server_port, ts, sum(accept_queue_length) as length,
    lag(sum(accept_queue_length)) over (partition by host, netns, server_address, server_port order by ts) as length_before
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_address, server_port, ts
),
stuck as (
  -- A process that accepts nothing is not overloaded.
  select host as stuck_host from (
    select host, count(*) as samples, min(length) as least, count(*) filter (where length < length_before) as falls
    from steps group by host, netns, server_address, server_port
  ) queues
  where samples >= 8 and least >= 3 and falls = 0
  group by host
),
storms as (
  select c.host, c.site, c.program, c.requests, c.late, c.requests - c.good as failed, c.clients, b.clients_before,
    cast(c.load as double) / 15 as load_rate, cast(b.load_15 as double) / 15 as load_before, cast(c.load as double) / b.load_15 as load_ratio,
    cast(c.good as double) / 15 as good_rate, cast(b.good_15 as double) / 15 as good_before, cast(c.good as double) / b.good_15 as good_ratio,
    cast(c.load as double) / c.requests as tries, b.tries_before,
    cast(c.requests as double) / greatest(c.clients, 1) / b.per_client_before as per_client_ratio
  from counted c
  join before b on b.host = c.host and b.site = c.site
  where c.slice = 0
)
select host, site, requests, failed, late, clients, clients_before, load_rate, load_before, load_ratio,
  good_rate, good_before, good_ratio, tries, per_client_ratio,
  cast(greatest(floor(good_before), 1) as bigint) as good_limit,
  case when tries >= 1.5 * tries_before and tries >= 1.5 then 'proxy'
    when greatest(clients, clients_before) < 4 then 'few'
    when per_client_ratio >= 2 then 'clients' else 'crowd' end as who_text,
  case when program = 'haproxy' then 'haproxy' when program = 'weir' then 'weir' else 'nginx' end as shed_text
from storms
left join stuck on stuck_host = host
where (stuck_host is null or good_rate > 0.1 * good_before) and load_ratio >= 2.5 and good_ratio <= 0.7 and failed >= 30 and failed * 2 >= requests and late >= 0.3 * failed
