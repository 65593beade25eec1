/*---
id = "wire.little_violated"
title = "Tap sees only part of the traffic"
tier = "wire"
class = "note"
for = "10s"
every = "10s"
clear = "60s"
key = ["server_port"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where little_error_ratio > 0.1 and not is_lossy and ts > $now - interval '65 seconds' and ts <= $now limit 1"
subject = "port {server_port} of {host} on {source}"
summary = "the tap of port {server_port} is incomplete: throughput × response time differs from the concurrency by {error_percent:.0} % over a minute; part of the traffic passes elsewhere, or requests outlast the slices"
why = "Little's law holds for every system: arrival rate × response time = concurrency. If it does not, the tap sees only a part: another interface, an asymmetric return path, uncounted packet loss. Other findings about this port then rest on incomplete data."
look_at = "`select ts, arrivals, completions, concurrency, missed_by_tap from wire_slice where server_port = {server_port} order by ts desc limit 60`: arrivals without completions, or the other way round? Do requests and responses take different interfaces (`ip route get CLIENT`)?"
silent_when = "Fewer than 20 seconds with 20 arrivals each in the last minute, or a median error up to 10 %. Seconds with completions of requests older than the slices, or with packet loss reported by the tap, do not count. Very long requests (downloads, long polls) shift time between slices."
fix = "Let the tap see both directions: `[wire] interfaces = [\"any\"]`, or the interface of the other direction. Check: little_error_ratio of wire_slice is below 0.1 again."
source = "Little's law; 41 steady slices of the fault lab: median error 0.8 %, at most 3 %"
---*/
select host, source, server_port, count(*) as slices, 100.0 * median(little_error_ratio) as error_percent,
  sum(arrivals) as arrivals, sum(completions) as completions
from wire_slice
where ts > $now - interval '65 seconds' and ts <= $now and not is_lossy and little_error_ratio is not null and arrivals >= 20
group by host, source, server_port
having count(*) >= 20 and median(little_error_ratio) > 0.1
