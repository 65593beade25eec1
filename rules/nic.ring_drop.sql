/*---
id = "nic.ring_drop"
title = "NIC ring buffer full: packets dropped"
tier = "kernel"
class = "mail"
for = "0s"
every = "30s"
clear = "2m"
key = ["device"]
needs = ["net_dev"]
when = "select 1 from net_dev where (rx_fifo_errors_total > 0 or rx_drops_total > 0) and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = ["app.requests_stopped", "wire.loss", "wire.path_loss"]
subject = "network device {device} of {host}"
summary = "{device} of {host} lost {ring_losses} packets at a full ring buffer and dropped {drops} of {packets} others on receive in the last minute ({share:.3} %)"
why = "The NIC had no free descriptor for the packet, because the CPU that drains the ring was too late. TCP retransmits such packets after a timeout, so single requests become slow without a trace in any log; datagrams are lost."
look_at = "`ethtool -S {device} | grep -iE 'miss|no_buf|fifo|drop'` for the queue that overflows, `ethtool -g {device}` for the ring's size and its maximum, /proc/interrupts: does one CPU serve all queues? softirq share in cpu_stat."
silent_when = "No ring loss in 2 samples within a minute. Receive drops also count packets of unused protocols (LLDP, VLANs): they matter only above 1000 a minute and 0.1 % of the packets. Devices without hardware are excluded."
fix = "A larger ring: `ethtool -G {device} rx 4096` (at most the maximum in `ethtool -g {device}`; on many NICs the link goes down for a second). Then spread the load: `ethtool -L {device} combined N` up to the number of CPUs, and irqbalance. Make it permanent with a udev rule or the network configuration. Check: rx_fifo_errors_total stops rising. On a virtual machine with a single queue: a larger instance type."
source = "kernel Documentation/networking/statistics.rst, rx_fifo_errors and rx_missed_errors; ethtool(8)"
[chart]
title = "Receive losses since boot"
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
