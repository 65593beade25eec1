/*---
id = "wire.little_violated"
title = "What the tap sees does not add up"
tier = "wire"
class = "note"
for = "10s"
every = "10s"
clear = "60s"
key = ["server_port"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where little_error_ratio > 0.1 and not is_lossy and ts > $now - interval '65 seconds' and ts <= $now limit 1"
subject = "port {server_port} of {host} on {source}"
summary = "throughput times response time of port {server_port} is {error_percent:.0} % away from the concurrency that was seen in a minute: part of its traffic passes elsewhere, or requests last longer than slices"
why = "Little's law holds for every system: arrivals times response time is what is under way. Where it does not, the tap sees only a part: another interface, another way back, packets that were lost without being counted. Other findings about this port then rest on half of the truth."
look_at = "`select ts, arrivals, completions, concurrency, missed_by_tap from wire_slice where server_port = {server_port} order by ts desc limit 60`: arrivals without completions, or the other way round? Do requests and answers take different interfaces (`ip route get CLIENT`)?"
silent_when = "Fewer than 20 seconds with 20 arrivals each in the last minute, or a median error up to 10 %. Seconds in which requests ended that were older than the slices, or in which the tap lost packets and said so, do not count. Very long requests (downloads, long polls) shift time between slices."
fix = "Let the tap see both ways: `[wire] interfaces = [\"any\"]`, or the interface that the other direction takes. Check: little_error_ratio of wire_slice is below 0.1 again."
source = "Little's law; 41 steady slices of the fault lab: median error 0.8 %, at most 3 %"
---*/
select host, source, server_port, count(*) as slices, 100.0 * median(little_error_ratio) as error_percent,
  sum(arrivals) as arrivals, sum(completions) as completions
from wire_slice
where ts > $now - interval '65 seconds' and ts <= $now and not is_lossy and little_error_ratio is not null and arrivals >= 20
group by host, source, server_port
having count(*) >= 20 and median(little_error_ratio) > 0.1
