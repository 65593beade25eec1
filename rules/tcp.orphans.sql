/*---
id = "tcp.orphans"
title = "Many orphaned TCP sockets"
tier = "kernel"
class = "mail"
for = "10s"
every = "10s"
clear = "60s"
key = []
needs = ["sock_stat", "sysctl", "tcp_stat"]
when = "select 1 from sock_stat where tcp_orphan > 512 and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "orphaned sockets of {host}"
summary = "{host} has {orphans} orphaned TCP sockets, {share:%} of net.ipv4.tcp_max_orphans = {orphan_limit}; {aborted} connections were reset for it in the last minute"
why = "A process closed these connections, but the peers have not read the last data. Each holds its send buffer in unswappable kernel memory. At the limit the kernel resets them: clients lose the end of their responses."
look_at = "Which peers: `ss -tanp state fin-wait-1` and `state last-ack`. One network: slow or hostile clients. All: a process that closes without letting clients finish, or a broken path to them."
silent_when = "At most half of the limit in any sample of the last 30 s, or 512 sockets and fewer. TIME_WAIT sockets do not count as orphans."
fix = "Limit slow clients before the kernel has to: nginx `send_timeout 30s; reset_timedout_connection on;`, HAProxy `timeout client-fin 10s`. If the clients are legitimate and memory is available: {place}net.ipv4.tcp_max_orphans = {wanted} (up to 64 KiB of memory each). Check: tcp_orphan falls, TCPAbortOnMemory does not rise. net.ipv4.tcp_fin_timeout shortens only orphans in FIN_WAIT_2; it does not affect TIME_WAIT, which is always 60 s."
source = "field notes A, corrected (tcp_fin_timeout); kernel net/ipv4/tcp_timer.c, tcp_out_of_resources; Documentation/networking/ip-sysctl.rst, tcp_max_orphans"
[chart]
title = "Orphaned sockets"
unit = ""
sql = """
select ts, max(tcp_orphan) as orphans from sock_stat
where host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with counted as (
  select host, min(tcp_orphan) as orphans
  from sock_stat
  where ts > $now - interval '30 seconds' and ts <= $now
  group by host
  having min(tcp_orphan) > 512
),
setting as (
  select host, try_cast(value as bigint) as orphan_limit, set_in,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.ipv4.tcp_max_orphans' and ts > $now - interval '2 hours' and ts <= $now
),
resets as (
  select host, sum(increase) as aborted
  from tcp_stat
  where counter = 'TCPAbortOnMemory' and ts > $now - interval '60 seconds' and ts <= $now
  group by host
)
select c.host, c.orphans, s.orphan_limit, cast(c.orphans as double) / s.orphan_limit as share,
  coalesce(r.aborted, 0) as aborted, 2 * s.orphan_limit as wanted,
  case when s.set_in is not null then concat(s.set_in, ': ') else '/etc/sysctl.d/90-weir.conf: ' end as place
from counted c
join setting s on s.host = c.host and s.place = 1 and s.orphan_limit > 0
left join resets r on r.host = c.host
where c.orphans * 2 > s.orphan_limit
