/*---
id = "tune.harmful"
title = "A kernel setting does harm"
tier = "kernel"
class = "note"
for = "0s"
every = "10s"
key = ["name"]
needs = ["sysctl"]
subject = "{name}"
summary = "{name} is {current}: {harm}"
why = "{reason}"
look_at = "Who set it and why: `grep -r {name} /etc/sysctl.d /etc/sysctl.conf`, then that line's history."
silent_when = "The setting is as the kernel has it by default."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/ip-sysctl.rst; RFC 7323, RFC 2018, RFC 4987"
[setting]
risk = "Little: it is the kernel's own default."
interaction = "None; after changing it only new connections behave so."
---*/
with newest as (
  select host, name, last_value(value order by ts) as current, last_value(set_in order by ts) as set_in
  from sysctl
  where netns = 'host' and ts > $now - interval '2 hours' and ts <= $now
  group by host, name
)
select host, name, current, set_in,
  case name when 'net.ipv4.tcp_abort_on_overflow' then '0' else '1' end as suggested,
  case name
    when 'net.ipv4.tcp_syncookies' then 'a flood of SYNs keeps every visitor out'
    when 'net.ipv4.tcp_timestamps' then 'round trips cannot be measured well'
    when 'net.ipv4.tcp_sack' then 'one lost packet makes many be sent again'
    when 'net.ipv4.tcp_window_scaling' then 'no connection goes faster than 64 KiB a round trip'
    when 'net.ipv4.tcp_moderate_rcvbuf' then 'receive buffers stay small whatever the round trip'
    else 'a burst that overflows the queue is answered with resets' end as harm,
  case name
    when 'net.ipv4.tcp_syncookies' then 'With cookies good clients are served while a flood goes on; without, the queue of half-open connections is full of it. The message about possible flooding is no reason to switch them off.'
    when 'net.ipv4.tcp_timestamps' then 'Time stamps tell a retransmission from its original, protect against wrapped sequence numbers, and are what makes tcp_tw_reuse safe. They cost 12 bytes a packet.'
    when 'net.ipv4.tcp_sack' then 'With selective acknowledgement only what was lost is sent again. Hardware that could not cope with it is long gone.'
    when 'net.ipv4.tcp_window_scaling' then 'At 50 ms round trip 64 KiB are 1.3 MB/s, whatever the line.'
    when 'net.ipv4.tcp_moderate_rcvbuf' then 'The kernel grows a buffer as the connection needs it; switched off, each program would have to.'
    else 'A client that gets a reset gives up, one that gets no answer tries again a second later, when the burst may be over.' end as reason
from newest
where (name in ('net.ipv4.tcp_syncookies', 'net.ipv4.tcp_timestamps', 'net.ipv4.tcp_sack', 'net.ipv4.tcp_window_scaling',
    'net.ipv4.tcp_moderate_rcvbuf') and current = '0')
  or (name = 'net.ipv4.tcp_abort_on_overflow' and current = '1')
