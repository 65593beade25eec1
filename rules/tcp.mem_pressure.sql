/*---
id = "tcp.mem_pressure"
title = "TCP memory pressure"
tier = "kernel"
class = "mail"
for = "10s"
every = "10s"
clear = "60s"
key = []
needs = ["sock_stat", "sysctl", "tcp_stat", "host_info", "kmsg"]
when = """
select 1 from sock_stat where tcp_memory_bytes > 33554432 and ts > $now - interval '30 seconds' and ts <= $now
union all select 1 from kmsg where kind = 'tcp_memory_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now
union all select 1 from tcp_stat where counter = 'TCPMemoryPressures' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"""
explains = ["app.requests_stopped", "tcp.rcvbuf_pressure"]
subject = "TCP memory of {host}"
summary = "TCP buffers of {host} use {memory_bytes:bytes}{bound_text}; in the last minute the kernel entered memory pressure {pressures} times and pruned {pruned} queued segments{told_text}"
why = "Above the second number of net.ipv4.tcp_mem the kernel shrinks every connection's buffers and discards out-of-order data, so all connections slow down at once; above the third it refuses new buffers. The memory belongs to connections with a slow reader: the application, or the clients."
look_at = "Which connections hold it: `ss -tanm` sorted by rb and tb. Large Recv-Q: the process on this host does not read. Large Send-Q: the peers do not. Number of connections: sock_stat.tcp_established."
silent_when = "The buffers stay below 75 % of the bound in some sample of the last 30 s and TCPMemoryPressures does not rise, and the kernel does not log `TCP: out of memory`. The bound is in pages, assumed to be 4 KiB, so on CPUs other than x86-64 with larger pages only the counter applies."
fix = "Keep net.ipv4.tcp_mem at the kernel's default, which depends on memory, and limit each connection: the third numbers of net.ipv4.tcp_rmem and net.ipv4.tcp_wmem (`sysctl net.ipv4.tcp_rmem`; 2 MiB suffice for 160 Mbit/s at 100 ms), and net.ipv4.tcp_notsent_lowat = 131072. Then fix the slow reader. Check: tcp_memory_bytes falls, TCPMemoryPressures stops rising. Never set the three numbers of tcp_mem equal or huge: that removes the back-pressure and ends in the OOM killer."
source = "field notes A, corrected (three equal 32 GB values); kernel net/ipv4/tcp.c, tcp_enter_memory_pressure; Documentation/networking/ip-sysctl.rst, tcp_mem"
[chart]
title = "TCP buffer memory"
unit = "B"
sql = """
select ts, max(tcp_memory_bytes) as tcp_memory from sock_stat
where host = {host} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with used as (
  select host, min(tcp_memory_bytes) as least_bytes, max(tcp_memory_bytes) as memory_bytes
  from sock_stat
  where ts > $now - interval '30 seconds' and ts <= $now
  group by host
),
setting as (
  select host, try_cast(split_part(value, ' ', 2) as bigint) * 4096 as bound_bytes,
    row_number() over (partition by host order by ts desc) as place
  from sysctl
  where name = 'net.ipv4.tcp_mem' and ts > $now - interval '2 hours' and ts <= $now
),
counters as (
  select host,
    coalesce(sum(increase) filter (where counter = 'TCPMemoryPressures'), 0) as pressures,
    coalesce(sum(increase) filter (where counter in ('PruneCalled', 'RcvPruned', 'OfoPruned')), 0) as pruned
  from tcp_stat
  where counter in ('TCPMemoryPressures', 'PruneCalled', 'RcvPruned', 'OfoPruned')
    and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
told as (
  select host, count(*) as messages from kmsg
  where kind = 'tcp_memory_full' and is_backlog is not true and ts > $now - interval '60 seconds' and ts <= $now
  group by host
),
machine as (
  select host, max(architecture) as architecture from host_info
  where ts > $now - interval '2 hours' and ts <= $now
  group by host
),
joined as (
  select u.host, u.least_bytes, u.memory_bytes, coalesce(c.pressures, 0) as pressures, coalesce(c.pruned, 0) as pruned,
    coalesce(t.messages, 0) as messages,
    case when m.architecture = 'x86_64' then s.bound_bytes end as bound_bytes
  from used u
  left join setting s on s.host = u.host and s.place = 1
  left join counters c on c.host = u.host
  left join machine m on m.host = u.host
  left join told t on t.host = u.host
)
select host, memory_bytes, bound_bytes, pressures, pruned,
  case when bound_bytes is null then ''
       else concat(', ', cast(round(100.0 * memory_bytes / bound_bytes) as bigint), ' % of the pressure threshold (net.ipv4.tcp_mem, second number)') end as bound_text,
  case when messages > 0 then '; it logs that TCP is out of memory and drops connections' else '' end as told_text,
  case when pressures > 0 or messages > 0 then 'page' else 'mail' end as class
from joined
where pressures > 0 or messages > 0 or (bound_bytes > 0 and least_bytes > 0.75 * bound_bytes)
