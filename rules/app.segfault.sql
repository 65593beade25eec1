/*---
id = "app.segfault"
title = "Process crashed (segmentation fault)"
tier = "app"
class = "note"
for = "0s"
every = "10s"
clear = "5m"
key = ["process"]
needs = ["kmsg", "listener"]
when = "select 1 from kmsg where kind = 'segfault' and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now limit 1"
explains = [
  "app.closes_early", "app.crash_loop", "app.down", "app.errors", "app.errors_quiet",
  "app.workers_die", "proxy.bad_gateway", "proxy.down", "proxy.haproxy_errors",
  "proxy.masked_errors", "proxy.retry_amplification", "proxy.upstream_errors", "slo.burning",
]
equal = ["process_name"]
subject = "{process} on {host}"
summary = "{process} on {host} crashed {crashes} times in 10 minutes (segmentation fault){served_text}; last: {body}"
why = "A bug in the program or in a library or module it loads, or faulty memory. Work in progress is lost; if nothing restarts it, so is the service. A worker that crashes and is restarted by its master appears as single errors (502, reset connections)."
look_at = "The library in the kernel's line (`in libX.so`) and whether the address is always the same; `coredumpctl info {process:sh}`. What changed: a deploy, a package update in the last day (`grep ' upgrade ' /var/log/dpkg.log`). Different programs crashing on one host: test its memory."
silent_when = "No crash within 10 minutes and since weir started. One crash is a note for a program that serves nothing (a tool, a job) and a mail for one that had a listening socket in the last 15 minutes; from 3 crashes it is a page."
fix = "Roll back to the last version that worked (package, module or extension named in the kernel's line), keep a core dump for its authors (`systemctl edit` its unit: `[Service]`, `LimitCORE=infinity`), and let systemd restart it meanwhile: `Restart=on-failure`, `RestartSec=1`. Check: no new line at the same load. Never hide it with a cron job that restarts it each minute."
source = "kernel arch/x86/mm/fault.c, show_signal_msg; core(5)"
---*/
with crashes as (
  select host, coalesce(subject, 'a process') as process, count(*) as crashes, max(body) as body
  from kmsg
  where kind = 'segfault' and is_backlog is not true and ts > $now - interval '10 minutes' and ts <= $now
  group by 1, 2
),
served as (
  select host, process_name, count(distinct server_port) as ports
  from listener
  where ts > $now - interval '15 minutes' and ts <= $now and process_name is not null
  group by host, process_name
)
select c.host, c.process, c.process as process_name, c.crashes, c.body,
  case when s.ports > 0 then ', and had a listening socket' else '' end as served_text,
  case when s.ports > 0 and s.process_name in ('nginx', 'haproxy', 'apache2', 'httpd', 'envoy') then 'proxy' else 'app' end as tier,
  case when s.ports > 0 and c.crashes >= 3 then 'page' when s.ports > 0 then 'mail' else 'note' end as class
from crashes c
left join served s on s.host = c.host and s.process_name = c.process
