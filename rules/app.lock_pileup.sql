/*---
id = "app.lock_pileup"
title = "Requests wait for a lock on a file"
tier = "app"
class = "mail"
for = "4s"
every = "4s"
clear = "30s"
key = ["blocked_process", "locked_directory"]
needs = ["file_lock_wait", "tcp_wait", "unix_listener", "request"]
when = "select 1 from file_lock_wait where waiting >= 3 and longest_seconds >= 5 and ts > $now - interval '12 seconds' and ts <= $now limit 1"
explains = [
  "app.errors_quiet", "app.health_digest_missing", "app.requests_stopped", "app.slow",
  "app.slow_quiet", "app.slow_requests_logged", "app.socket_backlog_full", "app.throughput_drop",
  "app.worker_timeout", "app.workers_exhausted", "client.aborts_499", "proxy.bad_gateway",
  "proxy.haproxy_errors", "proxy.haproxy_queue", "proxy.haproxy_slow", "proxy.no_live_upstreams",
  "proxy.upstream_errors", "proxy.upstream_hangs", "proxy.upstream_timeout",
  "proxy.worker_connections", "tcp.accept_queue_high", "tcp.accept_wait", "tcp.close_wait_leak",
  "tcp.listen_overflow", "traffic.unusual", "unix.accept_queue_full", "slo.burning",
]
subject = "{process} on {host}"
summary = "{process} on {host}: {waiting} processes wait up to {longest:.0} s for a lock on {file}{holder_text}"
why = "One process at a time may hold an exclusive lock; the others do nothing until it is released. PHP locks the file of a session from `session_start` to the end of the request, so that the requests of one visitor run one after another: one that streams or waits for something slow holds all others, and a page that asks every second fills all workers. Further workers are filled as fast."
look_at = "What the holder does: `cat /proc/{holder}/stack`, `strace -p {holder}`, php-fpm's slow log (`request_slowlog_timeout = 2s`). `grep -e '->' /proc/locks` lists those that wait, with inode and process; `lslocks` names the files."
silent_when = "Fewer than 3 processes of one name and one directory, waits below 5 s, and while visitors wait for nothing: no connection to this host without an answer for 4 s, no queue of a Unix socket, fewer than 3 requests in the last minute that failed or took 5 s. Servers whose idle processes take turns to accept (Postfix's `pid/`, Apache's accept mutex, deleted files) are left out."
fix = "{fix_text} Check: `grep -c -e '->' /proc/locks` falls to 0."
source = "/proc/locks; PHP's session handler `files`; ZoneMinder/zoneminder #806, pimcore/demo #584"
[text.holder_text]
known = ", which {holder_name} (process {holder}) holds"
unknown = ""
[text.fix_text]
session = "Call `session_write_close()` before the request streams or waits, or open the session with `read_and_close`; requests that need no session should not start one. Until then a limit for each session in the proxy (`limit_conn`) keeps one visitor from all workers. To end it now: end process {holder}."
holder = "To end it now: end process {holder}, if what it does may be repeated. Then hold the lock for less: no network call and no large file while it is held, `LOCK_NB` with an error for those that come second, or one file for each job."
other = "Find the holder with `lslocks`. Then hold the lock for less: no network call and no large file while it is held, `LOCK_NB` with an error for those that come second, or one file for each job."
---*/
with samples as (
  select host, process_name, coalesce(directory, 'an unknown directory') as directory, ts, waiting, longest_seconds, path, holder_process_id, holder_process_name,
    row_number() over (partition by host, process_name, directory order by ts desc) as age,
    count(*) filter (where waiting >= 3) over (partition by host, process_name, directory) as samples_with_waits
  from file_lock_wait
  where ts > $now - interval '12 seconds' and ts <= $now
    and coalesce(path, '') not like '% (deleted)' and coalesce(path, '') not like '/var/spool/postfix/pid/%' and lower(coalesce(path, '')) not like '%accept%'
),
visitors as (
  select host from tcp_wait where side = 'server' and waiting >= 1 and longest_seconds >= 4 and ts > $now - interval '20 seconds' and ts <= $now
  union
  select host from unix_listener where accept_queue_length >= 1 and ts > $now - interval '20 seconds' and ts <= $now
  union
  select host from request
  where ts > $now - interval '60 seconds' and ts <= $now
    and (http_response_status_code in (499, 502, 503, 504) or duration_seconds >= 5 or failure is not null)
  group by host
  having count(*) >= 3
)
select s.host, s.process_name as process, s.process_name as blocked_process, s.directory as locked_directory, s.waiting, s.longest_seconds as longest,
  coalesce(s.path, concat('a file in ', s.directory)) as file, s.holder_process_id as holder, s.holder_process_name as holder_name,
  case when s.holder_process_id is not null then 'known' else 'unknown' end as holder_text,
  case when s.holder_process_id is not null and s.path like '%/sess\_%' then 'session' when s.holder_process_id is not null then 'holder' else 'other' end as fix_text
from samples s
join visitors v on v.host = s.host
where s.age = 1 and s.ts > $now - interval '5 seconds' and s.waiting >= 3 and s.longest_seconds >= 5 and s.samples_with_waits >= 2
