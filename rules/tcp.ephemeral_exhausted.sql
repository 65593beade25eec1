/*---
id = "tcp.ephemeral_exhausted"
title = "Ephemeral ports exhausted"
tier = "kernel"
class = "page"
for = "0s"
every = "2s"
clear = "30s"
key = ["upstream"]
needs = ["log", "sock_stat", "sysctl", "tcp_stat"]
when = """
select 1 from log where program in ('nginx', 'haproxy') and (message_template like '%(99: %' or message_template like '%no free ports%') and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where program = 'apache' and body like 'AH00957%' and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from log where (body like '%cannot assign requested address' or body like '%Cannot assign requested address%' or body like '%EADDRNOTAVAIL%' or coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception']) like '%cannot assign requested address' or coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception']) like '%EADDRNOTAVAIL%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"""
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.service_unreachable",
  "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.upstream_errors",
]
subject = "local ports of {host} to {upstream}"
summary = "{program} on {host} found no free local port to {upstream} {failures} times in 30 s; ports {range_text}, {time_wait} sockets in TIME_WAIT, {opens_per_second:.0} new connections/s"
why = "Each connection to one address and port needs a distinct local port, and a port stays reserved for 60 s after this side closes. So {range_width} ports allow about {limit_per_second} new connections/s to one destination; each request beyond that gets a 502."
look_at = "`ss -tan | awk '{print $5}' | sort | uniq -c | sort -n | tail`: which destination holds the ports. The total of TIME_WAIT alone proves nothing: the limit is per pair of addresses. connection_requests near 1 in request means that connections are not reused."
silent_when = "Within 30 s, nginx logged no errno 99 (\"Cannot assign requested address\") while connecting to an upstream, HAProxy no \"no free ports\", Apache no errno 99 at a connect, and Caddy, Go and Node.js programs fewer than 3 such lines. The same words while binding, or for an IPv6 address on a host without IPv6, mean an address that the host does not have. The distance to the last port is not measured yet."
fix = "Reuse connections first: nginx `upstream { server …; keepalive 64; }` with `proxy_http_version 1.1;` and `proxy_set_header Connection \"\";`, HAProxy `http-reuse safe`. Then add ports: {place}net.ipv4.ip_local_port_range = 1024 65000 (reserve ports that programs listen on in net.ipv4.ip_local_reserved_ports), more upstream addresses or `proxy_bind`. net.ipv4.tcp_tw_reuse = 1 helps on this, the connecting side, and needs timestamps; it does nothing for incoming connections. Check: such lines end. Never use tcp_tw_recycle."
source = "fault lab F04 (200 ports: 200 requests served, 200 answered with 502); connect(2) EADDRNOTAVAIL; kernel net/ipv4/inet_hashtables.c, __inet_hash_connect"
[chart]
title = "Sockets in TIME_WAIT"
unit = ""
sql = """
select ts, sum(tcp_time_wait) as time_wait from sock_stat
where host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with failed as (
  select host, coalesce(nullif(program, ''), 'a program') as program,
    coalesce(regexp_match(attrs['upstream'], '://([^/]+)')[1], 'its destination') as upstream, count(*) as failures
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and ((program = 'nginx' and message_template like 'connect() %(99: %) while connecting to upstream' and message_template not like 'connect() to [%'
        and coalesce(attrs['upstream'], '') not like '%://[%')
      or (program = 'haproxy' and message_template like 'Connect() failed for %no free ports%'))
  group by 1, 2, 3
  union all
  select host, 'apache' as program,
    coalesce(regexp_match(body, 'attempt to connect to ([^ ]+)')[1], 'its destination') as upstream, count(*) as failures
  from log
  where ts > $now - interval '30 seconds' and ts <= $now and program = 'apache' and coalesce(attrs['module'], 'proxy') like 'proxy%' and body like 'AH00957%' and attrs['system_error'] like '(99)%' and body not like '%connect to [%'
  group by 1, 2, 3
  union all
  select host, coalesce(nullif(program, ''), 'a program') as program,
    coalesce(regexp_match(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), 'dial tcp ([0-9.]+:[0-9]+)')[1], regexp_match(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), 'EADDRNOTAVAIL ([0-9.]+:[0-9]+)')[1], 'its destination') as upstream, count(*) as failures
  from log
  where ts > $now - interval '30 seconds' and ts <= $now
    and coalesce(program, '') not in ('nginx', 'haproxy', 'apache', 'apache2', 'httpd', 'php-fpm', 'sshd')
    and (regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), '^([0-9TZ :.,/+-]*)?(http: proxy error: |''50[0-9] [A-Z][A-Za-z ]+'' caused by: )?dial tcp [0-9.]+:[0-9]+: connect: cannot assign requested address$')
      or regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), '^((Uncaught )?[A-Za-z]*Error: )?connect EADDRNOTAVAIL [0-9.]+:[0-9]+')
      or regexp_like(coalesce(attrs['error'], attrs['err'], attrs['err.message'], attrs['error.message'], attrs['exception'], body), '^(Caused by: )?java\.net\.NoRouteToHostException: Cannot assign requested address'))
  group by 1, 2, 3
  having count(*) >= 3
),
sockets as (
  select host, max(tcp_time_wait) as time_wait
  from sock_stat
  where ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
opened as (
  select host, sum(increase) / 30.0 as opens_per_second
  from tcp_stat
  where counter = 'ActiveOpens' and ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
setting as (
  select host, value, set_in,
    try_cast(split_part(value, ' ', 2) as bigint) - try_cast(split_part(value, ' ', 1) as bigint) + 1 as width,
    row_number() over (partition by host order by case when netns = 'host' then 0 else 1 end, ts desc) as place
  from sysctl
  where name = 'net.ipv4.ip_local_port_range' and ts > $now - interval '2 hours' and ts <= $now
)
select f.host, f.program, f.upstream, f.failures, s.time_wait, o.opens_per_second,
  coalesce(r.value, 'unknown') as range_text, coalesce(r.width, 28232) as range_width, coalesce(r.width, 28232) / 60 as limit_per_second,
  case when r.set_in is not null then concat(r.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from failed f
left join sockets s on s.host = f.host
left join opened o on o.host = f.host
left join setting r on r.host = f.host and r.place = 1
