/*---
id = "nic.ring_drop"
title = "A network card drops received packets because its ring is full"
tier = "kernel"
class = "mail"
for = "0s"
every = "30s"
clear = "2m"
key = ["device"]
needs = ["net_dev"]
when = "select 1 from net_dev where (rx_fifo_errors_total > 0 or rx_drops_total > 0) and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "network device {device} of {host}"
summary = "network device {device} of {host} lost {ring_losses} packets at a full ring and dropped {drops} of {packets} others on receipt in the last minute ({share:.3} %)"
why = "The card had no free place to put the packet, since the processor that empties the ring came too late. TCP sends such packets again after a pause, so single requests become slow without a reason in any log; datagrams are gone."
look_at = "`ethtool -S {device} | grep -iE 'miss|no_buf|fifo|drop'` for the queue that overflows, `ethtool -g {device}` for the ring's size and its maximum, /proc/interrupts: does one processor serve all queues? softirq share in cpu_stat."
silent_when = "No loss at the ring at 2 samples within a minute. Drops on receipt are also counted for packets of protocols that nobody asked for (LLDP, VLANs): they count only above 1000 a minute and 0.1 % of the packets. Devices without hardware are left out."
fix = "A longer ring: `ethtool -G {device} rx 4096` (at most what `ethtool -g {device}` calls its maximum; on many cards the link is down for a second). Then spread: `ethtool -L {device} combined N` up to the number of processors, and irqbalance. Keep it over a restart in a udev rule or the network configuration. Check: rx_fifo_errors_total stands still. On a virtual machine that has one queue only: a larger type."
source = "kernel Documentation/networking/statistics.rst, rx_fifo_errors and rx_missed_errors; ethtool(8)"
[chart]
title = "Packets lost on receipt, since boot"
unit = ""
sql = """
select ts, max(rx_fifo_errors_total) as ring, max(rx_drops_total) as other from net_dev
where host = {host} and device = {device} and ts > $now - interval '30 minutes' and ts <= $now group by ts order by ts"""
---*/
with counted as (
  select host, netns, device,
    max(rx_fifo_errors_total) - min(rx_fifo_errors_total) as ring_losses,
    count(distinct rx_fifo_errors_total) - 1 as ring_samples,
    max(rx_drops_total) - min(rx_drops_total) as drops,
    count(distinct rx_drops_total) - 1 as drop_samples,
    max(rx_packets_total) - min(rx_packets_total) as packets,
    min(rx_packets_total) < max(rx_packets_total) / 100 as was_reset
  from net_dev
  where ts > $now - interval '60 seconds' and ts <= $now
    and (rx_fifo_errors_total > 0 or rx_drops_total > 0)
  group by host, netns, device
  having not regexp_like(max(device), '^(lo|veth|br|docker|virbr|vnet|tap|tun|wg|cni|flannel|cali|dummy|ifb|sit|gre|ip6|vxlan|geneve|wl|ww|ppp|tailscale|lxc|lxd|podman|kube|nodelocal|vmnet)')
)
select host, device, ring_losses, drops, packets, 100.0 * (ring_losses + drops) / greatest(packets, 1) as share
from counted
where not was_reset
  and ((ring_losses > 0 and ring_samples >= 2)
    or (drops >= 1000 and drop_samples >= 3 and drops > 0.001 * packets))
