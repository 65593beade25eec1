/*---
id = "dns.resolver_slow"
title = "Name server silent, failing or slow"
tier = "host"
class = "mail"
for = "0s"
every = "5s"
clear = "20s"
key = ["server_address"]
needs = ["resolver_probe"]
when = "select 1 from resolver_probe where (duration_seconds is null or duration_seconds > $threshold or response_code not in ('NOERROR', 'NXDOMAIN')) and ts > $now - interval '30 seconds' and ts <= $now limit 1"
explains = [
  "app.errors", "app.errors_quiet", "app.requests_stopped", "app.slow", "app.slow_quiet",
  "app.slow_requests_logged", "app.socket_backlog_full", "app.worker_timeout",
  "app.lock_pileup", "app.workers_exhausted", "dns.name_failing", "proxy.bad_gateway", "proxy.haproxy_errors",
  "proxy.haproxy_slow", "proxy.upstream_timeout", "proxy.upstream_unresolved",
  "proxy.upstream_hangs",
]
subject = "name server {server_address} of {host}"
summary = "name server {server_address} of {host} ({place_text} in /etc/resolv.conf) {what_text}; {others_text}"
why = "Programs query the first name server of /etc/resolv.conf and wait `timeout` seconds (default 5) for it before they try the next one, at every lookup: {cost_text}. A proxy or application that resolves a name for each connection is slow by that much, and its own log shows a slow upstream."
look_at = "`dig @{server_address} . NS +tries=1 +time=1` from {host}, and the same to the other servers. Silent: is the server up, does a firewall drop port 53? `connection refused`: its program is down. Slow: the server's own forwarders. Which programs suffer: those whose connect time has a step of {timeout_seconds} s."
silent_when = "It answered within the last 10 s. A silent server that has not answered in the last hour counts only while another server of the list answers; a host whose servers were silent from the start evidently needs no names. A server is slow when even the fastest of its last four answers took more than the threshold (100 ms is a default: `weir thresholds dns.resolver_slow` gives the value for this fleet), because on an overloaded host weir's own probe is late. A server that answers with an error (SERVFAIL, REFUSED) counts when it answered without one within the last hour, since some forwarders refuse this query always. The third and later servers are unused while the first two answer: a note."
fix = "Put a working server first in /etc/resolv.conf (or in its source: /etc/systemd/resolved.conf `DNS=`, netplan, NetworkManager, DHCP), and limit the cost of a silent one: `options timeout:1 attempts:2 rotate`. Better, a cache on the host that remembers dead servers: systemd-resolved or `unbound` on 127.0.0.53. Safe: running programs read the file at their next lookup (glibc 2.26 and later). Check: duration_seconds of the first server in resolver_probe is below 0.1."
source = "fault lab F45 (2.009 s instead of 0.005 s); resolv.conf(5)"
[chart]
title = "Time to answer"
unit = "s"
sql = """
select ts, duration_seconds from resolver_probe
where host = {host} and server_address = {server_address} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
[threshold]
value = 0.1
unit = "s"
side = "above"
series = """
select date_bin(interval '5 minutes', slice) as ts, host, subject, max(value) as value
from (
  select date_bin(interval '30 seconds', ts) as slice, host, server_address as subject, min(duration_seconds) as value
  from resolver_probe
  where ts >= $from and ts < $to and response_code in ('NOERROR', 'NXDOMAIN') and duration_seconds is not null
  group by 1, 2, 3
  having count(*) >= 4
) slices
group by 1, 2, 3"""
---*/
with recent as (
  select host, server_address, position, duration_seconds, response_code, error, timeout_seconds, server_count, ts,
    row_number() over (partition by host, server_address order by ts desc) as place
  from resolver_probe
  where ts > $now - interval '30 seconds' and ts <= $now
),
servers as (
  select host, server_address, min(position) as position, max(timeout_seconds) as timeout_seconds, max(server_count) as server_count,
    count(*) filter (where place <= 2) as looks,
    count(*) filter (where place <= 2 and duration_seconds is null) as silent_looks,
    count(*) filter (where place <= 2 and response_code not in ('NOERROR', 'NXDOMAIN')) as failing_looks,
    max(case when place = 1 then response_code end) as code,
    count(*) as samples,
    count(duration_seconds) filter (where place <= 4 and response_code in ('NOERROR', 'NXDOMAIN')) as timed_samples,
    min(duration_seconds) filter (where place <= 4 and response_code in ('NOERROR', 'NXDOMAIN')) as least_seconds,
    max(error) as error
  from recent
  group by host, server_address
),
answered as (
  select host, server_address, count(duration_seconds) as earlier_answers,
    count(*) filter (where response_code in ('NOERROR', 'NXDOMAIN')) as good_answers
  from resolver_probe
  where ts > $now - interval '1 hour' and ts <= $now
  group by host, server_address
),
states as (
  select s.*, coalesce(a.earlier_answers, 0) as earlier_answers,
    s.looks = 2 and s.silent_looks = 2 as is_silent,
    s.looks = 2 and s.failing_looks = 2 and coalesce(a.good_answers, 0) > 0 as is_failing,
    s.timed_samples >= 4 and s.least_seconds > $threshold as is_slow,
    sum(case when s.silent_looks + s.failing_looks < s.looks then 1 else 0 end) over (partition by s.host) as answering
  from servers s left join answered a on a.host = s.host and a.server_address = s.server_address
)
select host, server_address, position, server_count, timeout_seconds, least_seconds, error, answering, samples,
  case when position = 1 then 'the first' when position = 2 then 'the second' else concat('number ', position) end as place_text,
  case when is_silent then concat('does not answer: ', error)
       when is_failing then concat('answers every query with ', code)
       else concat('takes at least ', cast(round(least_seconds * 1000) as bigint), ' ms to answer') end as what_text,
  case when server_count = 1 then 'it is the only one' when answering - (case when is_silent or is_failing then 0 else 1 end) = 0 then 'no other one answers'
       else concat(answering - (case when is_silent or is_failing then 0 else 1 end), ' of the others answer') end as others_text,
  case when is_silent and position = 1 then concat(timeout_seconds, ' s per lookup here')
       when is_failing and answering > 0 then 'the next server is tried at once' when is_failing then 'no name resolves'
       when is_silent then 'only when those before it also fail' else concat(cast(round(least_seconds * 1000) as bigint), ' ms per lookup here') end as cost_text,
  case when is_failing and answering > 0 then 'note' when position = 1 or ((is_silent or is_failing) and answering = 0) then 'mail' else 'note' end as class
from states
where (is_silent and (answering > 0 or earlier_answers > 0)) or is_failing or is_slow
