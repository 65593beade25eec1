/*---
id = "proxy.keepalive_mismatch"
title = "Keep-alive mismatch: application closes before proxy"
tier = "proxy"
class = "mail"
for = "0s"
every = "10s"
clear = "3m"
key = ["upstream"]
needs = ["config_directive", "idle_close", "listener", "log", "request", "tcp_stat"]
when = """
select 1 from config_directive where program = 'nginx' and directive = 'keepalive' and ts > $now - interval '2 hours' and ts <= $now
union all select 1 from tcp_stat where counter = 'TCPAbortOnData' and increase > 0 and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = ["app.closes_early", "proxy.bad_gateway"]
subject = "nginx and {process} at {upstream}"
summary = "{process} closes idle connections before nginx on {host}: {upstream} after {app_seconds} s ({app_from}), nginx after {proxy_seconds} s ({proxy_from}); {resets} requests in 10 minutes met a closed connection"
why = "When the application closes an idle connection while the proxy sends the next request on it, that request is lost: a 502 within milliseconds, at random, more often on quiet sites. The proxy must close first."
look_at = "502 with a tiny duration in `request`; in nginx's error log \"upstream prematurely closed connection\" and \"reset by peer\" with \"while reading response header from upstream\". On the application's host TCPAbortOnData and OutRsts of tcp_stat rise together."
silent_when = "The application keeps connections longer than nginx, its timeout is unknown, or it runs on another host. Apache and nginx state it in their configurations (of an nginx with several servers the longest counts). Other programs are observed: at least 2 idle connections closed in 10 minutes, all after nearly the same time (table `idle_close`; a restart closes them after many different ones). nginx without `keepalive` in the upstream keeps none and is unaffected. It is a page from 10 lines on. Without a configuration, the kernel's counters make it a note: in a network namespace at least 5 connections in 30 s, in 3 of those seconds, got data after they were closed, and these are a twentieth of incoming connections and half of outgoing resets. Excluded where HAProxy listens (it resets connections to its servers on purpose) or a proxy logged 499 or 504 in that time (the client gave up)."
fix = "{app_fix}, longer than nginx's {proxy_seconds} s by 5 to 10 s, and restart it; or shorten nginx's side: in `{context}` beside {proxy_place} keepalive_timeout {wanted}s; and `nginx -s reload`. This applies to every hop: each server keeps connections longer than its client. Check: no such line for a day. Do not remove `keepalive`, and do not let nginx retry requests that change data (`non_idempotent`)."
source = "field notes A; fault lab F10 (35 of 280 reuses failed, TCPAbortOnData 32); nginx documentation of keepalive_timeout (upstream, 60s); Apache KeepAliveTimeout (5 s); Node.js server.keepAliveTimeout (5 s)"
---*/
with newest as (
  select host, program, process_id, server_port, file, line, context, directive, arguments,
    rank() over (partition by host, program, file order by ts desc) as place
  from config_directive
  where program in ('nginx', 'apache') and lower(directive) in ('listen', 'server', 'keepalive', 'keepalive_timeout', 'keepalivetimeout')
    and ts > $now - interval '2 hours' and ts <= $now
),
pools as (
  select host, context,
    max(case when directive = 'keepalive' then concat(file, ':', line) end) as keepalive_place,
    max(case when directive = 'keepalive_timeout' then try_cast(regexp_match(arguments, '^([0-9]+)s?$')[1] as bigint) end) as said_seconds,
    max(case when directive = 'keepalive_timeout' then 1 else 0 end) as is_said,
    max(case when directive = 'keepalive_timeout' then concat(file, ':', line) end) as timeout_place
  from newest
  where place = 1 and program = 'nginx' and context like '%upstream %'
  group by host, context
),
servers as (
  select n.host, n.context, split_part(n.arguments, ' ', 1) as upstream,
    try_cast(regexp_match(split_part(n.arguments, ' ', 1), '^(127\.[0-9.]+|localhost|\[::1\]):([0-9]+)$')[2] as bigint) as port,
    p.keepalive_place, p.timeout_place, case when p.is_said = 1 then p.said_seconds else 60 end as proxy_seconds, p.is_said
  from newest n
  join pools p on p.host = n.host and p.context = n.context
  where n.place = 1 and n.directive = 'server' and n.program = 'nginx' and p.keepalive_place is not null
),
apache as (
  select host, max(try_cast(regexp_match(arguments, '^([0-9]+)$')[1] as bigint)) as seconds, max(concat(file, ':', line)) as file_line
  from newest
  where place = 1 and program = 'apache' and lower(directive) = 'keepalivetimeout'
  group by host
),
behind as (
  select l.host, l.server_port, max(k.seconds) as seconds, max(k.file_line) as file_line
  from newest l
  join (
    select host, process_id, context, concat(file, ':', line) as file_line,
      try_cast(regexp_match(arguments, '^([0-9]+)s?( |$)')[1] as bigint) as seconds
    from newest
    where place = 1 and program = 'nginx' and directive = 'keepalive_timeout' and context not like '%upstream %'
  ) k on k.host = l.host and k.process_id = l.process_id
  where l.place = 1 and l.program = 'nginx' and l.directive = 'listen' and l.server_port is not null
  group by l.host, l.server_port
  having count(*) = count(k.seconds) and count(*) filter (where k.context = 'http') > 0
),
owners as (
  select host, server_port, max(process_name) as process, max(process_id) as process_id
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now and process_name is not null
  group by host, server_port
),
seen as (
  select host, server_port, process_id, count(*) as closings, cast(round(percentile(idle_seconds, 0.5)) as bigint) as seconds
  from idle_close
  where ts > $now - interval '10 minutes' and ts <= $now
  group by host, server_port, process_id
  having count(*) >= 2 and percentile(idle_seconds, 0.9) - percentile(idle_seconds, 0.1) <= 0.3 + 0.1 * percentile(idle_seconds, 0.5)
),
failures as (
  select host, regexp_match(attrs['upstream'], '://([^/]+)')[1] as upstream, count(*) as resets
  from log
  where program = 'nginx' and ts > $now - interval '10 minutes' and ts <= $now
    and (message_template like 'upstream prematurely closed connection while reading response header%'
      or message_template like 'recv() failed (104:%while reading response header%' or message_template like 'writev() failed (32:%'
      or message_template like 'writev() failed (104:%')
  group by 1, 2
),
joined as (
  select s.*, o.process, coalesce(f.resets, 0) as resets,
    case when o.process = 'nginx' then b.seconds when o.process in ('apache2', 'httpd') then coalesce(a.seconds, 5)
      else k.seconds end as app_seconds,
    case when o.process not in ('nginx', 'apache2', 'httpd') then concat('seen ', k.closings, ' times')
         when o.process = 'nginx' then concat('keepalive_timeout in ', b.file_line)
         when a.file_line is not null then concat('KeepAliveTimeout in ', a.file_line) else 'Apache''s default' end as app_from,
    case when o.process = 'node' then 'In the program: server.keepAliveTimeout = 70000; server.headersTimeout = 75000'
         when starts_with(o.process, 'gunicorn') then concat('Start gunicorn with --keep-alive ', s.proxy_seconds + 10)
         when starts_with(o.process, 'uvicorn') then concat('Start uvicorn with --timeout-keep-alive ', s.proxy_seconds + 10)
         when starts_with(o.process, 'hypercorn') then concat('Start hypercorn with --keep-alive ', s.proxy_seconds + 10)
         when starts_with(o.process, 'puma') then concat('In config/puma.rb: persistent_timeout ', s.proxy_seconds + 10)
         when o.process = 'java' then concat('In its server (Tomcat keepAliveTimeout="', s.proxy_seconds + 10, '000", Spring Boot server.tomcat.keep-alive-timeout=',
           s.proxy_seconds + 10, 's): ', s.proxy_seconds + 10, ' s')
         when o.process not in ('nginx', 'apache2', 'httpd') then concat('In the program that listens on port ', s.port, ' (', o.process, '): keep idle connections for ',
           s.proxy_seconds + 10, ' s')
         when o.process = 'nginx' then concat(b.file_line, ': keepalive_timeout ', s.proxy_seconds + 10, 's;')
         when a.file_line is not null then concat(a.file_line, ': KeepAliveTimeout 70') else 'In apache2.conf: KeepAliveTimeout 70' end as app_fix
  from servers s
  join owners o on o.host = s.host and o.server_port = s.port
  left join apache a on a.host = s.host
  left join seen k on k.host = o.host and k.server_port = o.server_port and k.process_id = o.process_id
  left join behind b on b.host = s.host and b.server_port = s.port
  left join failures f on f.host = s.host and f.upstream = s.upstream
),
counters as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'TCPAbortOnData'), 0) as aborted,
    count(*) filter (where counter = 'TCPAbortOnData' and increase > 0) as seconds,
    coalesce(sum(increase) filter (where counter = 'PassiveOpens'), 0) as opened,
    coalesce(sum(increase) filter (where counter = 'OutRsts'), 0) as reset
  from tcp_stat
  where counter in ('TCPAbortOnData', 'PassiveOpens', 'OutRsts') and ts > $now - interval '30 seconds' and ts <= $now
  group by host, netns
),
listening as (
  select host, netns, string_agg(distinct process_name, ', ' order by process_name) as names,
    count(*) filter (where process_name = 'haproxy') as balancers
  from listener
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns
),
gave_up as (
  select distinct host
  from request
  where http_response_status_code in (499, 504) and ts > $now - interval '40 seconds' and ts <= $now
),
closing as (
  select c.host, c.netns, c.aborted, coalesce(l.names, 'a server') as names
  from counters c
  left join listening l on l.host = c.host and l.netns = c.netns
  left join gave_up g on g.host = c.host
  where c.aborted >= 5 and c.seconds >= 3 and c.aborted * 20 >= c.opened and c.aborted * 2 > c.reset
    and coalesce(l.balancers, 0) = 0 and g.host is null
)
select host, upstream, context, process, resets, proxy_seconds, app_seconds, app_from, app_fix,
  cast(null as varchar) as subject, cast(null as varchar) as summary, cast(null as varchar) as fix,
  case when is_said = 1 then concat('keepalive_timeout in ', timeout_place) else 'nginx''s default' end as proxy_from,
  coalesce(timeout_place, keepalive_place) as proxy_place,
  greatest(app_seconds - 2, 1) as wanted,
  case when resets >= 10 then 'page' else 'mail' end as class
from joined
where proxy_seconds >= app_seconds and app_seconds > 0
union all
select host, concat('netns ', netns) as upstream, '' as context, names as process, aborted as resets, cast(null as bigint) as proxy_seconds,
  cast(null as bigint) as app_seconds, '' as app_from, '' as app_fix,
  concat('connections in netns ', netns, ' of ', host) as subject,
  concat(aborted, ' connections (netns ', netns, ') of ', host, ' got data in 30 s after they were closed here (listening: ', names,
    '): the client side keeps idle connections longer than the server') as summary,
  'The client side must close first. Find which server of the namespace closes (`ss -tnp state fin-wait-2`), and let it keep idle connections longer than the balancer''s or client''s pool, by 5 to 10 s; or shorten the pool''s timeout. With `[wire]` weir names the port and the time (proxy.keepalive_race). Check: TCPAbortOnData of tcp_stat stops rising. Do not switch keep-alive off.' as fix,
  '' as proxy_from, '' as proxy_place, cast(null as bigint) as wanted, 'note' as class
from closing
