/*---
id = "wire.cloud_allowance"
title = "The provider drops or delays packets: the instance is over its network allowance"
tier = "wire"
class = "mail"
for = "0s"
every = "10s"
clear = "1m"
key = ["device", "counter"]
needs = ["nic_stat"]
when = "select 1 from nic_stat where counter like '%allowance_exceeded' and increase > 0 and ts > $now - interval '1 minute' and ts <= $now limit 1"
subject = "{device} of {host}"
summary = "{counter} of {device} on {host} rose by {rise} in a minute: {meaning}"
why = "Each size of instance may use so much of the network, and what is beyond is queued or dropped outside of it. Inside, nothing shows: no full queue, no busy processor, only loss and late answers."
look_at = "`ethtool -S {device} | grep allowance`, beside net_dev for bytes and packets a second. Short bursts within a second count too, although the mean of a minute looks harmless."
silent_when = "No counter of the driver whose name ends in allowance_exceeded rose within a minute. Only Amazon's driver (ena 2.2.10 and later) has them; other providers drop in silence (wire.loss)."
fix = "{fix_text} Check: the counter stands still (`ethtool -S {device}`)."
source = "kernel drivers/net/ethernet/amazon/ena/ena_ethtool.c, ena_admin_eni_stats"
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
    when counter like 'bw_in%' then 'more comes in than the instance may receive'
    when counter like 'bw_out%' then 'more goes out than the instance may send'
    when counter like 'pps%' then 'more packets a second than the instance may have'
    when counter like 'conntrack%' then 'the provider tracks no more connections for this instance, new ones are dropped'
    when counter like 'linklocal%' then 'more than 1024 packets a second to the provider''s DNS, clock and metadata services'
    else 'a limit of the instance is exceeded'
  end as meaning,
  case
    when counter like 'bw_%' then 'Send less (compression, a CDN in front, answers that are cached) or take a larger instance; several smaller ones have more together.'
    when counter like 'pps%' then 'Fewer and larger packets (keep-alive to clients and upstreams, jumbo frames inside the network) or a larger instance.'
    when counter like 'conntrack%' then 'Let the security group allow the port for 0.0.0.0/0 in both directions: such flows are not tracked. Else keep-alive instead of new connections, or a larger instance.'
    when counter like 'linklocal%' then 'Cache names on the host: systemd-resolved or unbound on 127.0.0.53 in front of the provider''s name server.'
    else 'See the provider''s limits of this size of instance.'
  end as fix_text
from risen
