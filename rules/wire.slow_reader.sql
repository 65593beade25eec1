/*---
id = "wire.slow_reader"
title = "Slow clients: receive window closed"
tier = "client"
class = "note"
for = "2s"
every = "5s"
clear = "20s"
key = ["server_port"]
needs = ["wire_slice", "wire_request"]
when = "select 1 from wire_slice where zero_windows > 0 and not is_lossy and ts > $now - interval '35 seconds' and ts <= $now limit 1"
subject = "clients of port {server_port} of {host}"
summary = "{slow} of {requests} responses on port {server_port} took clients 1 s or more to read (p95 {transfer_p95:duration}); {zero_windows} zero windows in 30 s, time to first byte p95 {think_p95:duration}"
why = "A client that closes its receive window makes the server wait. The response was ready: neither the application nor the network is slow, the reader is. In a log by completion time the same requests look like a slow site."
look_at = "`select client_address, sum(client_zero_windows), sum(client_zero_window_seconds) from tcp_conn where ts > now() - interval '10 minutes' group by 1 order by 3 desc`: one network, one kind of client, or large downloads?"
silent_when = "Fewer than 20 responses or 5 slow ones in 30 s, fewer than 3 zero windows, or less than 80 % of the slow responses' time is after their first byte. Slices in which the tap lost packets do not count. Large downloads are slow by nature: it is only a note."
fix = "The servers are not slow: leave workers and timeouts of the application alone. Let the proxy buffer the response so that no application worker waits for the client (nginx `proxy_buffering on;`), end dead connections (`send_timeout 30s;`), send less: compression, a CDN near them. Check: nothing to do here; app.slow_url would name the application."
source = "fault lab 7_slow_reader (181 shut windows, median transfer 1.9 s); RFC 9293 §3.8.6"
[chart]
title = "Zero windows"
unit = ""
sql = """
select ts, sum(zero_windows) as zero_windows from wire_slice
where host = {host} and server_port = {server_port} and ts > $now - interval '10 minutes' and ts <= $now
group by ts order by ts"""
---*/
with windows as (
  select host, server_port, sum(zero_windows) as zero_windows
  from wire_slice
  where ts > $now - interval '35 seconds' and ts <= $now and not is_lossy and tier = 'wire_edge'
  group by host, server_port having sum(zero_windows) >= 3
),
answers as (
  select w.host, r.server_port, w.think_seconds as think, w.transfer_seconds as transfer
  from wire_request w join request r
    on r.host = w.host and r.source = w.source and r.source_offset = w.source_offset and r.ts = w.ts
    and r.ts > $now - interval '35 seconds' and r.ts <= $now and r.tier = 'wire_edge'
  where w.ts > $now - interval '35 seconds' and w.ts <= $now and w.tier = 'wire_edge' and w.transfer_seconds is not null
),
sums as (
  select host, server_port, count(*) as requests, count(*) filter (where transfer >= 1.0) as slow,
    percentile(transfer, 0.95) as transfer_p95, percentile(think, 0.95) as think_p95,
    sum(transfer) filter (where transfer >= 1.0) as slow_transfer,
    sum(transfer + think) filter (where transfer >= 1.0) as slow_total
  from answers group by host, server_port
)
select s.host, s.server_port, s.requests, s.slow, s.transfer_p95, s.think_p95, w.zero_windows
from sums s join windows w on w.host = s.host and w.server_port = s.server_port
where s.requests >= 20 and s.slow >= 5 and s.slow_transfer >= 0.8 * s.slow_total
