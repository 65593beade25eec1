/*---
id = "proxy.keepalive_race"
title = "Keep-alive race: requests hit a closing connection"
tier = "proxy"
class = "mail"
for = "0s"
every = "10s"
clear = "3m"
key = ["server_port"]
needs = ["wire_slice"]
when = "select 1 from wire_slice where closing_races > 0 and not is_lossy and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = ["app.closes_early", "proxy.bad_gateway"]
subject = "port {server_port} of {host}: {side_text}"
summary = "{races} requests to port {server_port} hit a closing connection in 10 minutes ({resets} were reset while waiting): {side_text} keeps idle connections longer than the server"
why = "If the server closes an idle connection while the next request is on its way, that request is lost: a 502 or a reset within milliseconds, at random, more often on quiet sites. Only packets show it: the server logs no request."
look_at = "`select client_address, requests_after_fin, is_reset_in_flight, first_ts, ts from tcp_conn where server_port = {server_port} and (requests_after_fin > 0 or is_reset_in_flight) order by ts desc`: which side closed (fin_by), and after how long."
silent_when = "Fewer than 3 in 10 minutes. A request more than a round trip after the server's FIN is a client that ignores it, not a race. Resets of busy connections are the server's failure (app.crash_loop), not this. Slices in which the tap lost packets do not count. proxy.keepalive_mismatch finds the same from configurations, before requests fail."
fix = "The client side must close first. Make the server on port {server_port} keep idle connections longer than {side_text}, by 5 to 10 s (nginx `keepalive_timeout 75s;`, Apache `KeepAliveTimeout 70`, Node.js `server.keepAliveTimeout = 70000`), or shorten the other side (nginx upstream `keepalive_timeout 50s;`). Check: closing_races of wire_slice stays 0. Do not switch keep-alive off, and do not retry requests that change data."
source = "fault lab 6 (164 resets, 164 answers 502) and 6b (406 requests behind the FIN); RFC 9112 §9.5"
[chart]
title = "Requests that hit a closing connection"
unit = ""
sql = """
select date_bin(interval '10 seconds', ts) as ts, sum(closing_races) as races from wire_slice
where host = {host} and server_port = {server_port} and ts > $now - interval '30 minutes' and ts <= $now
group by 1 order by 1"""
---*/
select host, server_port, sum(closing_races) as races, sum(resets_in_flight) as resets,
  case when max(tier) = 'wire_upstream' then 'proxy' else 'client' end as tier,
  case when max(tier) = 'wire_upstream' then 'the proxy on this host' else 'the client side (clients, or a balancer before this host)' end as side_text
from wire_slice
where ts > $now - interval '10 minutes' and ts <= $now and not is_lossy
group by host, server_port
having sum(closing_races) >= 3
