/*---
id = "tune.harmful"
title = "Harmful kernel setting"
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
silent_when = "The setting has the kernel's default."
fix = "{name} = {suggested}"
source = "kernel Documentation/networking/ip-sysctl.rst; RFC 7323, RFC 2018, RFC 4987"
[setting]
risk = "Low: it is the kernel's own default."
interaction = "None; the change affects new connections only."
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
    when 'net.ipv4.tcp_syncookies' then 'a SYN flood keeps every client out'
    when 'net.ipv4.tcp_timestamps' then 'round trips cannot be measured well'
    when 'net.ipv4.tcp_sack' then 'one lost packet causes many retransmissions'
    when 'net.ipv4.tcp_window_scaling' then 'no connection goes faster than 64 KiB a round trip'
    when 'net.ipv4.tcp_moderate_rcvbuf' then 'receive buffers stay small whatever the round-trip time'
    else 'a burst that overflows the queue gets resets' end as harm,
  case name
    when 'net.ipv4.tcp_syncookies' then 'With cookies legitimate clients are served during a flood; without, it fills the queue of half-open connections. The message about possible flooding is no reason to switch them off.'
    when 'net.ipv4.tcp_timestamps' then 'Timestamps distinguish a retransmission from its original, protect against wrapped sequence numbers, and make tcp_tw_reuse safe. They cost 12 bytes a packet.'
    when 'net.ipv4.tcp_sack' then 'With selective acknowledgement only lost segments are resent. Hardware that could not handle it is long gone.'
    when 'net.ipv4.tcp_window_scaling' then 'At 50 ms round trip 64 KiB are 1.3 MB/s, whatever the line.'
    when 'net.ipv4.tcp_moderate_rcvbuf' then 'The kernel grows a buffer as the connection needs it; switched off, each program would have to.'
    else 'A client that gets a reset gives up; one that gets no answer retries a second later, when the burst may be over.' end as reason
from newest
where (name in ('net.ipv4.tcp_syncookies', 'net.ipv4.tcp_timestamps', 'net.ipv4.tcp_sack', 'net.ipv4.tcp_window_scaling',
    'net.ipv4.tcp_moderate_rcvbuf') and current = '0')
  or (name = 'net.ipv4.tcp_abort_on_overflow' and current = '1')
