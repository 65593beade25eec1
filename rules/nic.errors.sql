/*---
id = "nic.errors"
title = "NIC errors or link loss"
tier = "wire"
class = "mail"
for = "0s"
every = "30s"
clear = "5m"
key = ["device"]
needs = ["net_dev", "kmsg"]
when = """
select 1 from kmsg where kind in ('link_down', 'nic_timeout') and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now
union all select 1 from net_dev where (rx_errors_total > 0 or tx_errors_total > 0) and ts > $now - interval '5 minutes' and ts <= $now limit 1"""
explains = [
  "app.requests_stopped", "app.service_unreachable", "proxy.bad_gateway", "proxy.upstream_timeout",
  "wire.loss", "wire.path_loss", "wire.connect_unanswered", "wire.syn_blackhole",
  "proxy.upstream_hangs",
]
subject = "network device {device} of {host}"
summary = "{device} of {host}: {receive_errors} receive errors, {transmit_errors} transmit errors, {link_losses} link losses in 5 minutes{stalls_text}"
why = "Damaged packets are discarded and retransmitted after a timeout, so single requests become slow; a flapping link cuts everything for seconds. A card that does not send for 5 s is reset by its driver, which cuts everything too. It is the cable, the transceiver, the switch port, or a duplex mismatch."
look_at = "`ethtool -S {device} | grep -iE 'err|crc|miss'` for the kind (crc: cable or transceiver), `ethtool {device}` for speed and duplex, the counters of the switch port, `dmesg | grep {device}`. Other hosts on the same switch: one or all?"
silent_when = "Fewer than 5 errors, or all in one sample, within 5 minutes; a single link loss is a note (an unplugged cable, a restarted switch). The kernel logged no transmit timeout. Devices without hardware (loopback, veth, bridges, tunnels) and radio, where errors are normal, are excluded."
fix = "Replace cable, then transceiver, then port, and check after each that the counters stop; set both sides to autonegotiation (`ethtool -s {device} autoneg on`). On a virtual machine: contact the provider, or move it (stop and start). Check: rx_errors_total and tx_errors_total of {device} do not rise for an hour. Restarting the device (`ip link set {device} down`) cuts your own connection too: do it from the console."
source = "kernel Documentation/networking/statistics.rst; net/sched/sch_generic.c, dev_watchdog; amazon-eks-ami#454, openwrt#19765; proc(5), /proc/net/dev; ethtool(8)"
[chart]
title = "Errors since boot"
unit = ""
sql = """
select ts, max(rx_errors_total) as receive_errors, max(tx_errors_total) as transmit_errors from net_dev
where host = {host} and device = {device} and ts > $now - interval '1 hour' and ts <= $now group by ts order by ts"""
---*/
with counted as (
  select host, netns, device,
    max(rx_errors_total) - min(rx_errors_total) as receive_errors,
    max(tx_errors_total) - min(tx_errors_total) as transmit_errors,
    count(distinct rx_errors_total + tx_errors_total) - 1 as samples,
    min(rx_packets_total) < max(rx_packets_total) / 100 as was_reset
  from net_dev
  where ts > $now - interval '5 minutes' and ts <= $now
    and (rx_errors_total > 0 or tx_errors_total > 0)
  group by host, netns, device
  having not regexp_like(max(device), '^(lo|veth|br|docker|virbr|vnet|tap|tun|wg|cni|flannel|cali|dummy|ifb|sit|gre|ip6|vxlan|geneve|wl|ww|ppp|tailscale|lxc|lxd|podman|kube|nodelocal|vmnet)')
),
errors as (
  select host, device, sum(receive_errors) as receive_errors, sum(transmit_errors) as transmit_errors
  from counted
  where receive_errors + transmit_errors >= 5 and samples >= 2 and not was_reset
  group by host, device
),
links as (
  select host, subject as device, count(*) as link_losses
  from kmsg
  where kind = 'link_down' and is_backlog is not true and subject is not null and ts > $now - interval '5 minutes' and ts <= $now
    and not regexp_like(subject, '^(veth|br|docker|virbr|vnet|tap|tun|wl|ww)')
  group by host, subject
),
stalls as (
  select host, subject as device, count(*) as messages
  from kmsg
  where kind = 'nic_timeout' and is_backlog is not true and subject is not null and ts > $now - interval '5 minutes' and ts <= $now
  group by host, subject
),
devices as (
  select host, device
  from (select host, concat(device, '') as device from errors
    union all select host, concat(device, '') as device from links
    union all select host, concat(device, '') as device from stalls)
  group by host, device
)
select d.host, d.device,
  coalesce(e.receive_errors, 0) as receive_errors, coalesce(e.transmit_errors, 0) as transmit_errors,
  coalesce(l.link_losses, 0) as link_losses,
  case when s.messages > 0 then concat('; packets waited in the card until the driver noticed, ', s.messages, ' messages') else '' end as stalls_text,
  case when e.device is null and s.device is null and l.link_losses < 2 then 'note' else 'mail' end as class
from devices d
left join errors e on e.host = d.host and e.device = d.device
left join links l on l.host = d.host and l.device = d.device
left join stalls s on s.host = d.host and s.device = d.device
