/*---
id = "wire.mtu_blackhole"
title = "Large packets vanish on the way: small answers arrive, large ones hang"
tier = "wire"
class = "mail"
for = "2s"
every = "5s"
clear = "2m"
key = ["netns"]
explained_by = ["wire.bandwidth_cap", "wire.syn_blackhole", "wire.host_unreachable", "conntrack.full", "tcp.listen_overflow", "app.fd_limit"]
needs = ["tcp_stat"]
when = "select 1 from tcp_stat where counter = 'TCPTimeouts' and increase > 0 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "large packets from {host}"
summary = "from {host} (netns {netns}) {data_timeouts} timers of sent data ran out in a minute and {probes} probes were sent, and not one of {lost} resends was asked for by a receiver that got anything behind the gap: whole windows vanish; {fails_text}"
why = "When single packets are lost, the receiver says so at once, since later ones arrive. When nothing at all of a large answer arrives while handshakes and small answers pass, packets of full size are dropped silently: a tunnel or provider on the way takes less than 1500 bytes and the message that says so (ICMP fragmentation needed) is filtered."
look_at = "`ping -M do -s 1472 ADDRESS` from {host}: no answer, and with `-s 1300` one. `tracepath ADDRESS` shows where. Which peers: tcp_conn, or `ss -ti` for connections whose `bytes_acked` stands still with `backoff`. A tunnel or VPN that is new on the way?"
silent_when = "Fewer than 9 timers of data in a minute (those of SYNs left out; a single connection, whose peer is gone altogether, has 8 at most, since each takes twice as long), or any recovery by selective acknowledgements in it: then single packets were lost (wire.loss). An accept queue that overflows on the same host: who believes to be connected there sends a request that nobody takes. Hosts with many visitors always have some of these, so a black hole towards few of them stays unseen; the live tap sees it by peer."
fix = "Let ICMP type 3 code 4 (IPv6: type 2) through on every firewall on the way; it is needed and harmless. Where that is out of reach: `sysctl -w net.ipv4.tcp_mtu_probing=1` (to stay: /etc/sysctl.d/90-weir.conf), with which the kernel finds the size by itself after some seconds, or clamp on the router: `nft add rule inet filter forward tcp flags syn tcp option maxseg size set rt mtu`. Check: TCPTimeouts stands still and `tracepath` gets through."
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
)
select host, netns, data_timeouts, probes, lost, recoveries, mtu_failures,
  case when mtu_failures > 0 then concat('the kernel''s own probing of sizes failed ', mtu_failures, ' times')
       else 'the kernel does not probe for smaller sizes' end as fails_text
from counts
where data_timeouts >= 9 and lost >= data_timeouts and probes > 0 and recoveries = 0 and overflows = 0
