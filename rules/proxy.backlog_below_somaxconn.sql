/*---
id = "proxy.backlog_below_somaxconn"
title = "Backlog of a busy proxy below net.core.somaxconn"
tier = "proxy"
class = "note"
for = "0s"
every = "5s"
clear = "10m"
key = ["netns", "server_address", "server_port"]
needs = ["listener", "tcp_stat", "sysctl", "config_directive"]
when = "select 1 from tcp_stat where counter = 'PassiveOpens' and increase > 250 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "{process_name} on {server_address}:{server_port}"
summary = "{process_name} on {server_address}:{server_port} (netns {netns}) has a backlog of {queue_limit}, net.core.somaxconn allows {somaxconn}; peak {connections_per_second:.0} new connections/s"
why = "The accept queue holds new connections while the workers are briefly busy. At this rate {queue_limit} entries fill up in {seconds_to_full:duration}; then the kernel drops handshakes. nginx and Apache request 511 by default, whatever the sysctl allows."
look_at = "accept_queue_length of the listener at the busiest time of the day, and ListenOverflows of its namespace."
silent_when = "The namespace accepts at most 500 new connections in its busiest second of the last minute, or somaxconn is not above the backlog. With `reuseport` each worker has its own queue, so the real capacity is a multiple of the figure."
fix = "{file_line}{line} Then make it call listen() again: `nginx -t && nginx -s reload` does if the number has changed, other programs need a restart. Above {somaxconn}, raise net.core.somaxconn first; the smaller value applies. Safe: a queue entry costs memory only while in use. Check: accept_queue_limit of the listener shows the new value."
source = "field notes A (kernel lessons); nginx documentation of `listen`: backlog 511 on Linux; kernel sysctl somaxconn, 4096 since 5.4"
[text.file_line]
known = "{config_file}:{config_line}: "
unknown = ""
[text.line]
nginx = "listen {listen_on} backlog=16384;"
haproxy = "bind {listen_on} backlog 16384"
apache = "ListenBackLog 16384"
other = "raise the backlog of its listener to 16384"
---*/
with busy as (
  select host, netns, max(increase / greatest(interval_seconds, 0.5)) as connections_per_second
  from tcp_stat
  where counter = 'PassiveOpens' and ts > $now - interval '60 seconds' and ts <= $now
  group by host, netns
  having max(increase / greatest(interval_seconds, 0.5)) > 500
),
queues as (
  select host, netns, server_address, server_port, process_name,
    max(accept_queue_limit) as queue_limit, count(distinct socket_inode) as sockets, max(process_id) as process_id
  from listener
  where ts > $now - interval '5 seconds' and ts <= $now
    and process_name in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy', 'traefik', 'caddy')
  group by host, netns, server_address, server_port, process_name
),
setting as (
  select host, netns, last_value(cast(value as bigint) order by ts) as somaxconn
  from sysctl
  where name = 'net.core.somaxconn' and ts > $now - interval '2 hours' and ts <= $now
  group by host, netns
),
config as (
  select *, row_number() over (partition by host, program, server_port order by ts desc, file, line) as place
  from listen_directive
  where directive in ('listen', 'bind') and ts > $now - interval '2 hours' and ts <= $now
)
select q.host, q.netns, q.server_address, q.server_port, q.process_name, q.process_id, q.sockets, q.queue_limit,
  s.somaxconn, b.connections_per_second, q.queue_limit / b.connections_per_second as seconds_to_full,
  c.file as config_file, c.line as config_line,
  coalesce(c.bare_arguments, concat(case when q.process_name = 'haproxy' then ':' else '' end, q.server_port)) as listen_on,
  case when c.file is not null then 'known' else 'unknown' end as file_line,
  case when q.process_name = 'nginx' then 'nginx' when q.process_name = 'haproxy' then 'haproxy'
    when q.process_name in ('apache2', 'httpd') then 'apache' else 'other' end as line
from queues q
join busy b on b.host = q.host and b.netns = q.netns
join setting s on s.host = q.host and s.netns = q.netns
left join config c on c.host = q.host and c.server_port = q.server_port and c.place = 1 and c.program = q.process_name
where q.queue_limit <= 511 and q.queue_limit < s.somaxconn
