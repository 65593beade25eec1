/*---
id = "wire.cloud_allowance"
title = "Cloud network allowance exceeded"
tier = "wire"
class = "mail"
for = "0s"
every = "10s"
clear = "1m"
key = ["device", "counter"]
needs = ["nic_stat"]
when = "select 1 from nic_stat where counter like '%allowance_exceeded' and increase > 0 and ts > $now - interval '1 minute' and ts <= $now limit 1"
explains = ["app.requests_stopped", "wire.loss", "wire.path_loss"]
subject = "{device} of {host}"
summary = "{counter} of {device} on {host} rose by {rise} in a minute: {meaning}"
why = "Each instance size has a network allowance, and the provider queues or drops what exceeds it. Inside the instance nothing shows it: no full queue, no busy CPU, only packet loss and late responses."
look_at = "`ethtool -S {device} | grep allowance`, beside net_dev for bytes and packets per second. Bursts within a second count too, although the mean of a minute looks harmless."
silent_when = "No driver counter whose name ends in allowance_exceeded rose within a minute. Only Amazon's driver (ena 2.2.10 and later) has them; other providers drop silently (wire.loss)."
fix = "{fix_text} Check: the counter stops rising (`ethtool -S {device}`)."
source = "kernel drivers/net/ethernet/amazon/ena/ena_ethtool.c, ena_admin_eni_stats"
[text.meaning]
inbound = "inbound traffic exceeds the instance's bandwidth"
outbound = "outbound traffic exceeds the instance's bandwidth"
packets = "packet rate exceeds the instance's limit"
connections = "the provider's connection tracking is full, new connections are dropped"
link_local = "more than 1024 packets a second to the provider's DNS, clock and metadata services"
other = "a limit of the instance is exceeded"
[text.fix_text]
bandwidth = "Send less (compression, a CDN in front, cached responses) or take a larger instance; several smaller ones have more in total."
packets = "Fewer and larger packets (keep-alive to clients and upstreams, jumbo frames inside the network) or a larger instance."
connections = "Let the security group allow the port for 0.0.0.0/0 in both directions: such flows are not tracked. Otherwise use keep-alive instead of new connections, or a larger instance."
link_local = "Cache names on the host: systemd-resolved or unbound on 127.0.0.53 in front of the provider's name server."
other = "See the provider's limits for this instance size."
---*/
with risen as (
  select host, device, counter, max(driver) as driver, sum(increase) as rise, max(value_total) as value_total
  from nic_stat
  where counter like '%allowance_exceeded' and increase > 0 and ts > $now - interval '1 minute' and ts <= $now
  group by host, device, counter
)
select host, device, counter, driver, rise, value_total,
  case when counter like 'conntrack%' then 'page' else 'mail' end as class,
  case
    when counter like 'bw_in%' then 'inbound'
    when counter like 'bw_out%' then 'outbound'
    when counter like 'pps%' then 'packets'
    when counter like 'conntrack%' then 'connections'
    when counter like 'linklocal%' then 'link_local'
    else 'other'
  end as meaning,
  case
    when counter like 'bw_%' then 'bandwidth'
    when counter like 'pps%' then 'packets'
    when counter like 'conntrack%' then 'connections'
    when counter like 'linklocal%' then 'link_local'
    else 'other'
  end as fix_text
from risen
