/*---
id = "proxy.haproxy_maxconn"
title = "HAProxy at its connection limit: new visitors wait"
tier = "proxy"
class = "page"
for = "2s"
every = "2s"
clear = "15s"
key = ["proxy"]
prefers = ["proxy.backend_down", "proxy.haproxy_slow", "proxy.haproxy_backlog", "app.slow"]
needs = ["proxy_stat", "config_directive"]
when = "select 1 from proxy_stat where kind in ('frontend', 'process') and sessions >= 0.9 * session_limit and ts > $now - interval '15 seconds' and ts <= $now limit 1"
explains = [
  "proxy.backlog_below_somaxconn", "tcp.accept_queue_high", "tcp.accept_wait",
  "tcp.listen_overflow",
]
subject = "{shown} of {host}"
summary = "HAProxy on {host} is at its limit: {shown} has {sessions} of {session_limit} connections{place_text}; new ones wait in the kernel"
why = "HAProxy stops accepting at `maxconn`. New connections wait unseen in the listener's accept queue, and when that is full they are dropped. HAProxy's own times and logs do not contain this wait."
look_at = "What holds them: responses that take long (proxy.haproxy_slow, the queue of a backend), clients that keep idle connections (`timeout client`, `timeout http-keep-alive`), or more visitors. `echo 'show sess' | socat stdio {source:sh}` shows the age of each session."
silent_when = "Below the limit in one of the last three samples; from 90 % of it on it is a note. The limit of the process is `maxconn` in `global` or, without it, derived from `ulimit -n`."
fix = "{fix_text} Check: `sessions` in proxy_stat stays below `session_limit`. If the servers behind are slow, a higher limit only makes more visitors wait for them."
source = "HAProxy configuration manual, maxconn (global and proxies); management guide 9.1, columns scur, slim; show info, Maxconn, CurrConns"
[text.fix_text]
process = "Raise `maxconn` in `global` (each connection takes about 34 kB and two file descriptors: `LimitNOFILE` of the unit must be above twice that), then `systemctl reload haproxy`."
frontend = "Raise `maxconn` of frontend {proxy}; without one it has the value of `defaults` or of `global`. Then `systemctl reload haproxy`."
[chart]
title = "Connections"
unit = ""
sql = """
select ts, sessions, session_limit from proxy_stat
where host = {host} and proxy_name = {proxy} and kind in ('frontend', 'process') and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with recent as (
  select *, row_number() over (partition by host, source, kind, proxy_name order by ts desc) as place
  from proxy_stat
  where ts > $now - interval '15 seconds' and ts <= $now and kind in ('frontend', 'process') and session_limit > 0
),
levels as (
  select host, source, kind, proxy_name as proxy, min(sessions) as least, max(sessions) as sessions,
    max(session_limit) as session_limit, count(*) as looks
  from recent
  where place <= 3
  group by host, source, kind, proxy_name
),
lines as (
  select host, split_part(context, ' ', 2) as proxy, context, file, line, arguments,
    row_number() over (partition by host, context order by ts desc, file, line) as place
  from config_directive
  where program = 'haproxy' and directive = 'maxconn' and ts > $now - interval '2 hours' and ts <= $now
)
select l.host, l.source, l.proxy, l.sessions, l.session_limit,
  case l.kind when 'process' then 'the process' else concat('frontend ', l.proxy) end as shown,
  case when c.file is not null then concat(' (', c.file, ':', c.line, ': maxconn ', c.arguments, ')') else '' end as place_text,
  case l.kind when 'process' then 'process' else 'frontend' end as fix_text,
  case when l.least >= l.session_limit then 'page' else 'note' end as class
from levels l
left join lines c on c.host = l.host and c.place = 1
  and ((l.kind = 'process' and c.context = 'global') or (l.kind = 'frontend' and c.context in (concat('frontend ', l.proxy), concat('listen ', l.proxy))))
where l.looks >= 3 and l.least >= 0.9 * l.session_limit
