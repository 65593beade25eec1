/*---
id = "app.service_unreachable"
title = "Application cannot connect to a service it needs"
tier = "app"
class = "mail"
for = "0s"
every = "5s"
clear = "30s"
key = ["program", "target"]
prefers = ["db.not_answering", "wire.host_unreachable", "dns.name_failing", "firewall.drops_service", "tcp.ephemeral_exhausted"]
needs = ["log", "request"]
when = """
select 1 from log where (body like '%ECONNREFUSED%' or body like '%ETIMEDOUT %' or body like '%EHOSTUNREACH%' or body like '%ENOTFOUND%' or body like '%EAI_AGAIN%' or body like '%EADDRNOTAVAIL%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%dial tcp %' or body like '%dial unix %' or body like '%OperationalError%' or body like '%onnectionError%' or body like '%Can''t connect to %' or body like '%could not connect to server%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%java.net.%Exception%' or body like '%PSQLException%' or body like '%Communications link failure%' or body like '%ConnectionBad%' or body like '%CannotConnectError%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.worker_timeout", "app.workers_die", "app.workers_exhausted", "client.aborts_499",
  "proxy.bad_gateway", "proxy.upstream_errors", "proxy.upstream_timeout",
]
subject = "{shown} on {host}: {target}"
summary = "{shown} on {host} cannot connect to {target} ({reason_text}), {lines} times in 30 s{share_text}"
why = "{why_text} Each request that needs it fails or waits for the connect timeout."
look_at = "From {host}: `nc -vz HOST PORT` to {target}; on its side `ss -ltn` and its own log. The line: {line}"
silent_when = "Fewer than 3 such lines for a target in 30 s; a page if at least 20 % of the host's requests failed meanwhile. Only lines that start with the error of a language or driver count (Node.js, Go, psycopg, PyMySQL, redis-py, JDBC, Ruby), and none from the logs of web servers, PHP-FPM and sshd, which contain what visitors wrote. A worker that tries a service that is switched off on purpose looks the same."
fix = "{fix_text} Check: the lines end."
source = "Node.js net.js and dns.js errors; Go net.OpError; libpq fe-connect.c; PyMySQL connections.py (2003); redis-py connection.py; connect(2)"
[text.reason_text]
refused = "connection refused"
timeout = "no answer in time"
unreachable = "no route"
name = "its name does not resolve"
ports = "no free local port"
failed = "the connection failed"
[text.why_text]
refused = "The host answers at once that nothing listens there: the service is stopped, starting, or listens on another address or port."
timeout = "Nothing answers: the host is down, a firewall drops the packets, or the service's accept queue is full."
unreachable = "The network has no path to that host: its network, a route or an interface is down."
name = "The name service has no address for it, or does not answer."
ports = "All local ports towards that address are in use or in TIME_WAIT: each request opens a new connection."
failed = "The driver gives up before it has a session."
[text.fix_text]
refused = "Start {target}, or correct its address in the application's configuration. In containers `localhost` is the container itself."
timeout = "Bring the host or the path back; set a connect timeout of 1 to 2 s in the application, so that its workers stay free."
unreachable = "Check route, interface and security group between both (`ip route get`)."
name = "`getent hosts` on {host}, inside its container as well; check search domains and the service's registration."
ports = "Reuse connections (keep-alive, a pool); see tcp.ephemeral_exhausted."
failed = "Try the same address with the service's own client from {host}; its message says more."
[text.share_text]
known = "; {failed} of {requests} requests failed"
unknown = ""
---*/
with own as (
  select host, ts, coalesce(nullif(program, ''), 'other') as program, body,
    regexp_replace(body, '^[0-9TZ :.,/+-]*(\[?(ERROR|FATAL|CRITICAL|WARN|WARNING|LOG|error|fatal)\]?:? +)?', '') as text
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and coalesce(program, '') not in ('nginx', 'haproxy', 'apache', 'apache2', 'httpd', 'caddy', 'php-fpm', 'sshd', 'weir')
    and (body like '%ECONNREFUSED%' or body like '%ETIMEDOUT %' or body like '%EHOSTUNREACH%' or body like '%ENOTFOUND%' or body like '%EAI_AGAIN%' or body like '%EADDRNOTAVAIL%'
      or body like '%dial tcp %' or body like '%dial unix %' or body like '%OperationalError%' or body like '%onnectionError%' or body like '%Can''t connect to %' or body like '%could not connect to server%'
      or body like '%java.net.%Exception%' or body like '%PSQLException%' or body like '%Communications link failure%' or body like '%ConnectionBad%' or body like '%CannotConnectError%')
),
-- One pattern per language: what a visitor wrote may stand anywhere but at the start of a line.
matched as (
  select host, program, body,
    case
      when regexp_like(text, '^(Uncaught )?([A-Za-z]*Error|AggregateError \[[A-Z]+\]): (connect |getaddrinfo )?(ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN)( |$)')
        then coalesce(regexp_match(text, '(?:ECONNREFUSED|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|ENOTFOUND|EAI_AGAIN) ([^ ]{1,80})')[1], 'a service')
      when regexp_like(text, '^(failed to connect to `[^`]*`: )?(dial error [(])?dial (tcp|udp|unix) [^ ]+: (connect: |i/o timeout|lookup )')
        then regexp_match(text, 'dial (?:tcp|udp|unix) ([^ ]{1,80}):')[1]
      when regexp_like(text, '^dial tcp: lookup [^ ]+( on [^ ]+)?: ') then regexp_match(text, 'lookup ([^ ]{1,80}?)(?: on |: )')[1]
      when regexp_like(text, '^[(]?([a-z_0-9]+\.)*OperationalError[)]?:? ([a-z_0-9.]+: )?(connection to server (at|on) |could not connect to server: |could not translate host name )')
        then coalesce(regexp_match(text, 'connection to server at "([^"]{1,80})"')[1], regexp_match(text, 'translate host name "([^"]{1,80})"')[1], 'PostgreSQL')
      when regexp_like(text, '^[(]?([A-Za-z_0-9]+\.)*OperationalError[)]?:? ?[(]200[2356], "Can''t connect to (local )?(MySQL )?server') then coalesce(regexp_match(text, 'server on ''([^'']{1,80})''')[1], 'MySQL')
      when regexp_like(text, '^(redis\.exceptions\.|kombu\.exceptions\.)?(ConnectionError|TimeoutError|OperationalError): (Error -?[0-9]+ |Timeout |\[Errno [0-9]+\] )(connecting to|Connection refused|Name or service)')
        then coalesce(regexp_match(text, 'connecting to ([^ ]{1,80}?)\.( |$)')[1], 'a service')
      when regexp_like(text, '^(Caused by: )?java\.net\.(ConnectException|NoRouteToHostException|UnknownHostException|SocketTimeoutException)(: |$)') then coalesce(regexp_match(text, 'UnknownHostException: ([^ ]{1,80})$')[1], 'a service')
      when regexp_like(text, '^(Caused by: )?org\.postgresql\.util\.PSQLException: (Connection to [^ ]+ refused|The connection attempt failed)') then coalesce(regexp_match(text, 'Connection to ([^ ]{1,80}) refused')[1], 'PostgreSQL')
      when regexp_like(text, '^(Caused by: )?com\.mysql\.[a-z.]+\.CommunicationsException: Communications link failure') then 'MySQL'
      when regexp_like(text, '^(ActiveRecord::ConnectionNotEstablished [(])?(PG::ConnectionBad|Mysql2::Error::ConnectionError|Redis::CannotConnectError|RedisClient::CannotConnectError|Errno::ECONNREFUSED)[ :(]')
        then coalesce(regexp_match(text, 'connect\(2\) for "?([^ "]{1,60}"? port [0-9]+)')[1], regexp_match(text, 'at "([^"]{1,80})"')[1], 'a service')
    end as target,
    case
      when regexp_like(text, '(ENOTFOUND|EAI_AGAIN|lookup [^ ]+|UnknownHost|translate host name|Name or service not known|no such host|Temporary failure in name)') then 'name'
      when regexp_like(text, '(EADDRNOTAVAIL|annot assign requested address)') then 'ports'
      when regexp_like(text, '(ECONNREFUSED|[Cc]onnection refused|Error 111 |[Rr]efused)') then 'refused'
      when regexp_like(text, '(ETIMEDOUT|i/o timeout|[Tt]imed out|SocketTimeout|[Tt]imeout)') then 'timeout'
      when regexp_like(text, '(EHOSTUNREACH|ENETUNREACH|[Nn]o route to host|unreachable|Error 113 )') then 'unreachable'
      else 'failed'
    end as reason
  from own
),
counted as (
  select host, program, target, reason, count(*) as lines, max(substr(body, 1, 160)) as line,
    row_number() over (partition by host, program, target order by count(*) desc, reason) as place
  from matched where target is not null
  group by host, program, target, reason
),
answers as (
  select host, count(*) as requests, count(*) filter (where http_response_status_code >= 500 or failure is not null) as failed
  from request
  where tier in ('proxy', 'edge') and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select c.host, c.program, c.target, c.lines, c.line, a.requests, a.failed,
  case when c.program = 'other' then 'an application' else c.program end as shown,
  c.reason as reason_text,
  c.reason as why_text,
  c.reason as fix_text,
  case when a.failed > 0 then 'known' else 'unknown' end as share_text,
  case when a.requests >= 10 and a.failed >= 0.2 * a.requests then 'page' else 'mail' end as class
from counted c
left join answers a on a.host = c.host
where c.place = 1 and c.lines >= 3
