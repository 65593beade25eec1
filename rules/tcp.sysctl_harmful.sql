/*---
id = "tcp.sysctl_harmful"
title = "Harmful kernel setting"
tier = "kernel"
class = "note"
for = "0s"
every = "30s"
clear = "0s"
key = ["netns", "name"]
needs = ["sysctl"]
subject = "{name} = {value}"
summary = "{name} = {value} (netns {netns}, set in {where_set}): {harm}"
why = "{harm}"
look_at = "Who set it and why: {where_set}. Sysctl lists are copied from post to post, often from kernels ten years older."
silent_when = "The value is not one of the known harmful ones. For hosts that need such a value (tests), copy this rule without that line."
fix = "{cure} Then `sysctl --system`. Check: `sysctl {name}`."
source = "field notes A (the published sysctl set and its warnings); kernel Documentation/networking/ip-sysctl.rst; kernel commit 4396e46187ca (tcp_tw_recycle removed in 4.12)"
---*/
with newest as (
  select host, netns, name, value, default_value, set_in,
    row_number() over (partition by host, netns, name order by ts desc) as place
  from sysctl
  where ts > $now - interval '2 hours' and ts <= $now
),
judged as (
  select host, netns, name, value, default_value, coalesce(set_in, 'an unknown file') as where_set,
    case
      when name = 'net.ipv4.tcp_tw_recycle' and value = '1' then 'mail'
      when name = 'net.ipv4.tcp_abort_on_overflow' and value = '1' then 'mail'
      when name = 'net.ipv4.tcp_window_scaling' and value = '0' then 'mail'
      when name = 'net.ipv4.tcp_mem' and split_part(value, ' ', 1) = split_part(value, ' ', 2)
        and split_part(value, ' ', 2) = split_part(value, ' ', 3) then 'mail'
      else 'note' end as class,
    case
      when name = 'net.ipv4.tcp_tw_recycle' and value = '1'
        then 'it drops SYNs of clients behind one NAT whose clocks differ: some clients can never connect'
      when name = 'net.ipv4.tcp_timestamps' and value = '0'
        then 'without timestamps round-trip times are estimates, old duplicates are not detected at high rates, and tcp_tw_reuse cannot work'
      when name = 'net.ipv4.tcp_syncookies' and value = '0'
        then 'when the SYN queue is full, SYNs of legitimate clients are dropped instead of answered by a cookie (under a flood 0 of 20 clients connected, 20 of 20 with cookies)'
      when name = 'net.ipv4.tcp_abort_on_overflow' and value = '1'
        then 'a full accept queue resets the client at once instead of letting it retry: a burst of a second causes visible errors'
      when name = 'net.ipv4.tcp_max_tw_buckets' and try_cast(value as bigint) < coalesce(try_cast(default_value as bigint) / 4, 4096)
        then 'sockets beyond it skip TIME_WAIT, which removes the protection against old duplicates and saves only 0.25 KiB each'
      when name = 'net.ipv4.tcp_mem' and split_part(value, ' ', 1) = split_part(value, ' ', 2) and split_part(value, ' ', 2) = split_part(value, ' ', 3)
        then 'three equal numbers leave no pressure range below the limit, so the kernel never slows senders and ends in the out-of-memory killer'
      when name = 'net.ipv4.tcp_sack' and value = '0'
        then 'one lost packet makes the sender resend everything after it: slow for every client with packet loss'
      when name = 'net.ipv4.tcp_window_scaling' and value = '0'
        then 'windows stay below 64 KiB: at 100 ms round trip no connection is faster than 640 KB/s'
      when name = 'net.ipv4.tcp_synack_retries' and try_cast(value as bigint) < 2
        then 'clients with packet loss (mobile ones) miss the SYN-ACK and are dropped after one try'
      when name = 'net.ipv4.tcp_retries2' and try_cast(value as bigint) < 5
        then 'connections are cut after a few seconds of loss'
      when name = 'net.ipv4.tcp_rmem' and try_cast(split_part(value, ' ', 2) as bigint) > 1048576
        then 'each new connection starts with that much receive buffer: ten thousand slow ones take all of tcp_mem'
      when name = 'net.ipv4.ip_local_port_range' and try_cast(split_part(value, ' ', 2) as bigint) - try_cast(split_part(value, ' ', 1) as bigint) < 10000
        then 'at 170 connections a second to one address this few ports run out within the 60 s of TIME_WAIT'
      when name = 'net.core.somaxconn' and try_cast(value as bigint) < 128
        then 'it caps every backlog: a burst of that many connections overflows the accept queue'
    end as harm,
    case
      when name = 'net.ipv4.tcp_tw_recycle' then 'net.ipv4.tcp_tw_recycle = 0, or delete the line: newer kernels do not have it.'
      when name in ('net.ipv4.tcp_timestamps', 'net.ipv4.tcp_syncookies', 'net.ipv4.tcp_sack', 'net.ipv4.tcp_window_scaling') then concat(name, ' = 1 (the default).')
      when name = 'net.ipv4.tcp_abort_on_overflow' then 'net.ipv4.tcp_abort_on_overflow = 0 (the default); raise the listener''s backlog instead.'
      when name in ('net.ipv4.tcp_max_tw_buckets', 'net.ipv4.tcp_mem') then concat('Delete the line for ', name, ' and restart the host: the kernel''s default fits the memory.')
      when name = 'net.ipv4.tcp_synack_retries' then 'net.ipv4.tcp_synack_retries = 5 (the default).'
      when name = 'net.ipv4.tcp_retries2' then 'net.ipv4.tcp_retries2 = 15 (the default), at least 8.'
      when name = 'net.ipv4.tcp_rmem' then 'net.ipv4.tcp_rmem = 4096 131072 6291456 (the default): the kernel grows each buffer up to the third number as needed.'
      when name = 'net.ipv4.ip_local_port_range' then 'net.ipv4.ip_local_port_range = 32768 60999 (the default) or wider.'
      else 'net.core.somaxconn = 4096 (the default since 5.4).'
    end as cure
  from newest where place = 1
)
select host, netns, name, value, default_value, where_set, class, harm, cure from judged where harm is not null
