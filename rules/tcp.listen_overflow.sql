/*---
id = "tcp.listen_overflow"
title = "Accept queue overflow: client connections dropped"
tier = "app"
class = "page"
for = "1s"
every = "2s"
clear = "6s"
key = ["netns", "server_address", "server_port"]
needs = ["tcp_stat", "listener", "sysctl", "config_directive"]
when = "select 1 from tcp_stat where counter = 'ListenOverflows' and increase > 0 and ts > $now - interval '10 seconds' and ts <= $now limit 1"
explains = [
  "app.errors_quiet", "app.requests_stopped", "app.slow_quiet", "app.throughput_drop",
  "client.aborts_499", "proxy.bad_gateway", "proxy.haproxy_queue", "proxy.retry_amplification",
  "proxy.upstream_errors", "proxy.upstream_timeout", "proxy.worker_connections",
  "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak", "tcp.syn_flood_false",
  "wire.loss", "wire.mtu_blackhole", "wire.syn_blackhole", "wire.syn_retries", "slo.burning",
  "proxy.upstream_hangs",
]
subject = "{process} on {endpoint}"
summary = "accept queue of {process} on {endpoint} (netns {netns}) overflows: {overflows} connections dropped in 10 s, queue {queue_length} of {queue_limit} in {full_samples} of {samples} samples ({found_by}){member_text}; limit {queue_limit}: {limit_from}"
why = "A client's final handshake packet found the accept queue full, so the kernel dropped it. The client believes it is connected, or resends its SYN after 1, 1, 1, 1, 2, 4 … seconds: clients see a site that hangs, and no log has a line about it. The queue fills up if the process does not call accept() fast enough, or if a burst exceeds the limit min(backlog of listen(), net.core.somaxconn)."
look_at = "Is the process stuck or short of CPU (`accept_queue_length` stays at the limit), or is it a burst (the queue is full for moments only)? `select ts, accept_queue_length, accept_queue_limit from listener where server_port = …`; ListenOverflows and ListenDrops in tcp_stat; cpu_stat and cgroup_stat for throttling; what the process waits for (a database, a disk, a lock)."
silent_when = "ListenOverflows of the network namespace does not rise. A single overflow in one second only (fewer than 20) is ignored. The counter is per namespace, not per socket: if no queue was full in a sample, the listener with the fullest queue is named and the summary notes that. SYNs dropped by the firewall and refused connections do not count here."
fix = "{fix_text} Do not set net.ipv4.tcp_abort_on_overflow=1: it makes waiting clients fail."
source = "field notes A (kernel lessons); kernel net/ipv4/tcp_ipv4.c, tcp_v4_syn_recv_sock and sk_acceptq_is_full; listen(2); fault lab F01, F03, F17"
[chart]
title = "Accept queue and its limit"
unit = ""
sql = """
select ts, max(accept_queue_length) as accept_queue_length, max(accept_queue_limit) as accept_queue_limit
from listener
where ts > $now - interval '10 minutes' and ts <= $now and host = {host} and netns = {netns} and server_port = {server_port}
group by ts order by ts"""
[text.found_by]
no_sample = "no listener of its namespace could be read"
not_full = "not full in any sample; the fullest queue of its namespace"
mostly_full = "full most of the time"
bursts = "full for moments"
[text.member_text]
one = ""
some = "; {full_sockets} of its {sockets} sockets (SO_REUSEPORT), the one of process {worker_id}"
[text.limit_from]
requested = "listen() requested {asked}"
unknown = "min(backlog of listen(), net.core.somaxconn), which could not be read"
capped = "the configuration requests {asked}, capped by net.core.somaxconn = {somaxconn}"
cap = "net.core.somaxconn = {somaxconn}, the cap for every backlog"
not_loaded = "the running process requested {queue_limit} in listen(), the configuration has {asked} but is not loaded (nginx: reload, others: restart); net.core.somaxconn = {somaxconn}"
nginx = "nginx requests 511 unless `listen` has `backlog=`; net.core.somaxconn = {somaxconn} allows more"
apache = "Apache requests 511 unless ListenBackLog is set; net.core.somaxconn = {somaxconn} allows more"
process = "the process requested {queue_limit} in listen(); net.core.somaxconn = {somaxconn} allows more"
[text.file_line]
known = "{config_file}:{config_line}: "
unknown = ""
[text.listen_line]
nginx = "{file_line}listen {listen_on} backlog=16384;"
haproxy = "{file_line}bind {listen_on} backlog 16384"
apache = "{file_line}ListenBackLog 16384"
weir = "backlog = 16384 in the section [edge] of weir.toml"
other = "pass 16384 as backlog to listen() (gunicorn --backlog, uvicorn --backlog, Node server.listen({ backlog }), Tomcat acceptCount)"
[text.sysctl_line]
high_enough = ""
set = " and, because it caps the backlog, net.core.somaxconn = 16384 (set in {somaxconn_set_in})"
not_set = " and, because it caps the backlog, net.core.somaxconn = 16384 (in /etc/sysctl.d/90-weir.conf; `sysctl --system`)"
[text.restart]
nginx = "`nginx -t && nginx -s reload` (nginx calls listen() again when the number in its line has changed; if only the sysctl changes, restart it)"
other = "a restart, so that listen() is called again"
[text.fix_text]
stalled = "First make {process} accept again: the queue is constantly full, so it is stuck, out of workers or short of CPU, and a longer queue would only make clients wait longer. Find out what it waits for (database, disk, lock, descriptors) and restart it if it hangs. For bursts afterwards: {listen_line}{sysctl_line}. A new backlog takes effect when the process calls listen() again: restart it. Check: ListenOverflows no longer rises."
too_small = "Raise both limits, the smaller one applies: {listen_line}{sysctl_line}. It is safe: a queue entry costs memory only while it waits. The sysctl first, then {restart}. Check: accept_queue_limit shows the new value and ListenOverflows no longer rises; if the queue stays long, the process is too slow, not the queue too short."
---*/
with drops as (
  select host, netns, sum(increase) filter (where counter = 'ListenOverflows') as overflows,
    coalesce(sum(increase) filter (where counter = 'PassiveOpens'), 0) as accepted,
    count(*) filter (where counter = 'ListenOverflows' and increase > 0) as seconds_with_overflow
  from tcp_stat
  where counter in ('ListenOverflows', 'PassiveOpens') and ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns
  having sum(increase) filter (where counter = 'ListenOverflows') > 0
),
queues as (
  select host, netns, server_address, server_port, endpoint,
    max(accept_queue_length) as queue_length, max(accept_queue_limit) as queue_limit,
    -- With SO_REUSEPORT an address has several sockets; the owner of the fullest one is named.
    last_value(process_id order by is_full, accept_queue_length, process_id) as process_id,
    last_value(process_name order by is_full, accept_queue_length, process_id) as process_name,
    last_value(accepting_process_id order by is_full, accept_queue_length, process_id) as accepting_process_id,
    last_value(process_count order by is_full, accept_queue_length, process_id) as process_count,
    last_value(cgroup order by is_full, accept_queue_length, process_id) as cgroup,
    max(tier) as tier, count(distinct socket_inode) as sockets,
    count(distinct socket_inode) filter (where is_full) as full_sockets,
    count(distinct ts) as samples, count(distinct ts) filter (where is_full) as full_samples,
    max(cast(accept_queue_length as double) / greatest(accept_queue_limit, 1)) as fullness
  from listener_queue
  where ts > $now - interval '10 seconds' and ts <= $now
  group by host, netns, server_address, server_port, endpoint
),
ranked as (
  select d.host, d.netns, d.overflows, d.accepted, d.seconds_with_overflow, q.server_address, q.server_port,
    q.queue_length, q.queue_limit, q.process_id, q.process_name, q.process_count, q.cgroup,
    q.accepting_process_id, q.sockets, q.full_sockets,
    coalesce(q.process_name, 'an unknown process') as process, coalesce(q.endpoint, 'an unknown port') as endpoint,
    case when q.process_name in ('apache2', 'httpd') then 'apache' else q.process_name end as program,
    coalesce(q.tier, 'app') as tier, coalesce(q.samples, 0) as samples, coalesce(q.full_samples, 0) as full_samples,
    row_number() over (
      partition by d.host, d.netns order by q.full_samples desc nulls last, q.fullness desc, q.queue_limit
    ) as place
  from drops d left join queues q on q.host = d.host and q.netns = d.netns
),
setting as (
  select host, netns, last_value(cast(value as bigint) order by ts) as somaxconn, last_value(set_in order by ts) as somaxconn_set_in
  from sysctl
  where name = 'net.core.somaxconn' and ts > $now - interval '2 hours' and ts <= $now
  group by host, netns
),
config as (
  select *, rank() over (partition by host, program, file order by ts desc) as age
  from listen_directive
  where ts > $now - interval '2 hours' and ts <= $now
),
placed as (
  select g.*, s.somaxconn, s.somaxconn_set_in, c.file as config_file, c.line as config_line, c.backlog as asked,
    coalesce(c.bare_arguments, concat(case when g.program = 'haproxy' then ':' else '' end, g.server_port)) as listen_on,
    g.samples > 0 and g.full_samples * 2 >= g.samples as is_stalled,
    row_number() over (
      partition by g.host, g.netns, g.server_address, g.server_port
      order by case when c.process_id = g.process_id then 0 else 1 end,
        case when c.server_address = g.server_address then 0 else 1 end, c.backlog desc nulls last, c.file, c.line
    ) as config_place
  from ranked g
  left join setting s on s.host = g.host and s.netns = g.netns
  left join config c on c.host = g.host and c.server_port = g.server_port and c.program = g.program and c.age = 1
  where g.full_samples > 0 or g.place = 1
)
select host, netns, server_address, server_port, tier,
  case when overflows * 1000 > overflows + accepted then 'page' else 'mail' end as class,
  process, process_id, accepting_process_id, process_count, sockets, full_sockets, cgroup, endpoint, overflows, accepted, seconds_with_overflow,
  queue_length, queue_limit, full_samples, samples, somaxconn, somaxconn_set_in, asked, config_file, config_line, listen_on,
  case when full_sockets > 0 and full_sockets < sockets then 'some' else 'one' end as member_text,
  coalesce(accepting_process_id, process_id) as worker_id,
  case when samples = 0 then 'no_sample' when full_samples = 0 then 'not_full' when is_stalled then 'mostly_full' else 'bursts' end as found_by,
  case when somaxconn is null and asked is not null then 'requested' when somaxconn is null then 'unknown'
    when queue_limit = somaxconn and asked > somaxconn then 'capped' when queue_limit = somaxconn then 'cap'
    when asked <> queue_limit then 'not_loaded' when queue_limit = 511 and program = 'nginx' and asked is null then 'nginx'
    when queue_limit = 511 and program = 'apache' then 'apache' else 'process' end as limit_from,
  case when config_file is not null then 'known' else 'unknown' end as file_line,
  case program when 'nginx' then 'nginx' when 'haproxy' then 'haproxy' when 'apache' then 'apache' when 'weir' then 'weir' else 'other' end as listen_line,
  case when somaxconn >= 16384 then 'high_enough' when somaxconn_set_in is not null then 'set' else 'not_set' end as sysctl_line,
  case when program = 'nginx' then 'nginx' else 'other' end as restart,
  case when is_stalled and tier <> 'proxy' then 'stalled' else 'too_small' end as fix_text
from placed
where config_place = 1 and (seconds_with_overflow >= 2 or overflows >= 20)
