/*---
id = "dns.name_failing"
title = "A name that the proxy needs does not resolve"
tier = "host"
class = "mail"
for = "0s"
every = "5s"
clear = "25s"
key = ["name"]
prefers = ["dns.resolver_slow"]
needs = ["name_lookup"]
when = "select 1 from name_lookup where (addresses = '' or duration_seconds is null or duration_seconds > 0.5) and ts > $now - interval '40 seconds' and ts <= $now limit 1"
explains = [
  "app.errors", "app.service_unreachable", "app.slow", "app.throughput_drop", "proxy.backend_down",
  "proxy.bad_gateway", "proxy.haproxy_errors", "proxy.upstream_errors", "proxy.upstream_unresolved",
  "proxy.upstream_hangs",
]
subject = "{name} on {host}"
summary = "{name} ({config_file}:{config_line}, {program}) {what_text} on {host}: {answer_text}; {before_text}"
why = "{why_text}"
look_at = "`dig {query_name:sh} @{server_address}` and the same at the zone's own servers (`dig NS` of its parents): SERVFAIL is a server that cannot reach the zone's servers or rejects their signatures (DNSSEC), NXDOMAIN a record that was removed or a wrong `search` domain, silence a firewall or a dead forwarder. `getent hosts {name:sh}` shows what programs get."
silent_when = "It resolves at the first name server that answers, within 0.5 s. A name in /etc/hosts is not queried. A name that has not resolved once in the last hour is a note: other sources (mDNS, a container's own name service) may know it. One failed round is no finding. At most 24 names of nginx, HAProxy and Apache are queried; nginx resolves names without `resolver` only when it starts."
fix = "Repair the zone or the forwarder first. Until then: the address in /etc/hosts of {host}, then `{reload}`. Do not restart {program} before the name resolves: it needs it to start. So that one lost server costs nothing: two independent name servers in /etc/resolv.conf, `options timeout:1 attempts:2`. Check: the newest rows of name_lookup have addresses."
source = "RFC 1035 4.1.1, RFC 2308; resolv.conf(5); github.com/coredns/coredns #2558, github.com/kubernetes/kubernetes #56903"
[text.what_text]
failing = "does not resolve"
slow = "resolves slowly"
[text.before_text]
known = "it resolved {age} s ago"
never = "it has not resolved in the last hour"
slow = "{slow_looks} of {looks} lookups"
[text.why_text]
failing = "Programs that look the name up for each connection fail at once. nginx and HAProxy keep the address that they got when they started, so they work until the next reload, which then fails."
slow = "Each program that looks the name up waits that long for each new connection, and its own log shows a slow upstream."
[chart]
title = "Time to resolve"
unit = "s"
sql = """
select ts, duration_seconds from name_lookup
where host = {host} and name = {name} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with rounds as (
  -- What the C library gets: the answer of the first server that answers without a server's error.
  select host, name, ts, max(query_name) as query_name, max(program) as program, max(config_file) as config_file, max(config_line) as config_line,
    min(position) as first_position,
    max(case when addresses <> '' then 1 else 0 end) as resolved_somewhere,
    min(case when response_code in ('NOERROR', 'NXDOMAIN') then position end) as deciding,
    min(duration_seconds) as least_seconds
  from name_lookup
  where ts > $now - interval '40 seconds' and ts <= $now and position > 0
  group by host, name, ts
),
answers as (
  select r.host, r.name, r.ts, r.query_name, r.program, r.config_file, r.config_line,
    d.addresses as decided, coalesce(d.server_address, f.server_address) as server_address,
    coalesce(d.response_code, f.response_code, 'no answer within 2 s') as code,
    -- A server before it that errs or is silent costs its time first.
    case when d.duration_seconds is not null and d.position = r.first_position then d.duration_seconds
         when r.deciding is not null and f.response_code is null then 2.0
         else d.duration_seconds end as seconds,
    row_number() over (partition by r.host, r.name order by r.ts desc) as place
  from rounds r
  left join name_lookup d on d.host = r.host and d.name = r.name and d.ts = r.ts and d.position = r.deciding
    and d.ts > $now - interval '40 seconds' and d.ts <= $now
  left join name_lookup f on f.host = r.host and f.name = r.name and f.ts = r.ts and f.position = r.first_position
    and f.ts > $now - interval '40 seconds' and f.ts <= $now
),
states as (
  select host, name, max(query_name) as query_name, max(program) as program, max(config_file) as config_file, max(config_line) as config_line,
    max(case when place = 1 then server_address end) as server_address, max(case when place = 1 then code end) as code,
    count(*) as looks,
    count(*) filter (where coalesce(decided, '') = '') as failed_looks,
    count(*) filter (where place <= 2 and coalesce(decided, '') = '') as last_failed,
    count(*) filter (where seconds > 0.5) as slow_looks, min(case when place <= 3 then seconds end) as seconds
  from answers
  group by host, name
),
past as (
  select host, name, max(ts) as resolved_at
  from name_lookup
  where addresses <> '' and ts > $now - interval '1 hour' and ts <= $now
  group by host, name
)
select s.host, s.name, s.query_name, s.program, s.config_file, s.config_line, s.server_address, s.code, s.looks, s.failed_looks, s.slow_looks, s.seconds,
  cast(round(date_part('epoch', $now) - date_part('epoch', p.resolved_at)) as bigint) as age,
  case when s.last_failed = 2 then 'failing' else 'slow' end as what_text,
  case when s.last_failed = 2 then 'failing' else 'slow' end as why_text,
  case when s.last_failed = 2 then concat(s.code, case when s.code = 'NOERROR' then ' without an address' else '' end, ' (', s.server_address, ')')
       else concat('at least ', cast(round(s.seconds * 1000) as bigint), ' ms (', s.server_address, ')') end as answer_text,
  case when s.last_failed < 2 then 'slow' when p.resolved_at is null then 'never' else 'known' end as before_text,
  case s.program when 'haproxy' then 'systemctl reload haproxy' when 'apache' then 'systemctl reload apache2' else 'nginx -t && nginx -s reload' end as reload,
  case when s.last_failed = 2 and p.resolved_at is null then 'note' else 'mail' end as class
from states s
left join past p on p.host = s.host and p.name = s.name
where s.last_failed = 2 or (s.looks >= 3 and s.slow_looks >= 3 and s.seconds > 0.5)
