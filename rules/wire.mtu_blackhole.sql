/*---
id = "wire.mtu_blackhole"
title = "MTU black hole: large packets vanish"
tier = "wire"
class = "mail"
for = "5s"
every = "5s"
clear = "2m"
key = ["netns"]
prefers = ["wire.bandwidth_cap", "wire.syn_blackhole", "wire.host_unreachable", "conntrack.full"]
needs = ["tcp_stat", "tcp_wait"]
when = "select 1 from tcp_stat where counter = 'TCPTimeouts' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped", "wire.loss"]
subject = "large packets from {host}"
summary = "MTU black hole from {host} (netns {netns}): {data_timeouts} data timeouts in a minute, {probes} probes, and SACK for none of {lost} retransmissions, so whole windows vanish; {fails_text}"
why = "When single packets are lost, the receiver reports it at once, because later ones arrive. If nothing of a large response arrives while handshakes and small responses pass, full-size packets are dropped silently: a tunnel or provider on the path carries less than 1500 bytes, and the message that reports it (ICMP fragmentation needed) is filtered."
look_at = "`ping -M do -s 1472 ADDRESS` from {host}: no reply, but a reply with `-s 1300`. `tracepath ADDRESS` shows where. Which peers: tcp_conn, or `ss -ti` for connections whose `bytes_acked` does not move, with `backoff`. A new tunnel or VPN on the path?"
silent_when = "Fewer than 9 data timeouts in a minute (without SYNs; a single connection whose peer is gone has 8 at most, since each takes twice as long), or any recovery by selective acknowledgements in it: then single packets were lost (wire.loss). Half of the connections to a service have sent data that is not acknowledged: everything to it is dropped, not only what is large (app.service_hangs). An accept queue overflow on the same host: a client that believes it is connected sends a request that is never read. Hosts with many clients always have some, so a black hole to few of them stays undetected; the live tap detects it by peer."
fix = "Allow ICMP type 3 code 4 (IPv6: type 2) through every firewall on the path; it is required and harmless. If you cannot change the path: `sysctl -w net.ipv4.tcp_mtu_probing=1` (permanently: /etc/sysctl.d/90-weir.conf), with which the kernel finds the size after some seconds, or clamp on the router: `nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu`. Check: TCPTimeouts stops rising and `tracepath` gets through."
source = "fault lab F27 (small answers pass, large ones hang; with tcp_mtu_probing=1 after 6.4 s); RFC 2923, RFC 4821"
---*/
with counts as (
  select host, netns,
    coalesce(sum(increase) filter (where counter = 'TCPTimeouts'), 0) - coalesce(sum(increase) filter (where counter = 'TCPSynRetrans'), 0) as data_timeouts,
    coalesce(sum(increase) filter (where counter = 'TCPLossProbes'), 0) as probes,
    coalesce(sum(increase) filter (where counter = 'RetransSegs'), 0) - coalesce(sum(increase) filter (where counter = 'TCPSynRetrans'), 0) as lost,
    coalesce(sum(increase) filter (where counter in ('TCPSackRecovery', 'TCPRenoRecovery', 'TCPLossProbeRecovery', 'TCPSackRecoveryFail')), 0) as recoveries,
    coalesce(sum(increase) filter (where counter = 'TCPMTUPFail'), 0) as mtu_failures,
    sum(coalesce(sum(increase) filter (where counter = 'ListenOverflows'), 0)) over (partition by host) as overflows
  from tcp_stat
  where ts > $now - interval '60 seconds' and ts <= $now
    and counter in ('TCPTimeouts', 'TCPSynRetrans', 'TCPLossProbes', 'RetransSegs', 'TCPSackRecovery', 'TCPRenoRecovery',
      'TCPLossProbeRecovery', 'TCPSackRecoveryFail', 'TCPMTUPFail', 'ListenOverflows')
  group by host, netns
),
cut_off as (
  -- Requests are small: where even they are not acknowledged, everything is dropped.
  select distinct host as cut_host, netns as cut_netns
  from tcp_wait
  where ts > $now - interval '30 seconds' and ts <= $now and side = 'client' and 2 * unacknowledged >= connections
)
select host, netns, data_timeouts, probes, lost, recoveries, mtu_failures,
  case when mtu_failures > 0 then concat('the kernel''s MTU probing failed ', mtu_failures, ' times')
       else 'the kernel does not probe for smaller sizes' end as fails_text
from counts
left join cut_off on cut_host = host and cut_netns = netns
where cut_host is null and data_timeouts >= 9 and lost >= data_timeouts and probes > 0 and recoveries = 0 and overflows = 0
