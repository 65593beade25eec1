/*---
id = "cpu.stalled"
title = "Processor stalled in the kernel for 20 seconds"
tier = "host"
class = "mail"
for = "0s"
every = "10s"
clear = "5m"
key = []
needs = ["kmsg"]
when = "select 1 from kmsg where kind = 'cpu_stalled' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now limit 1"
explains = [
  "app.brief_stall", "app.requests_stopped", "app.slow", "app.slow_outlier", "app.slow_quiet",
  "clock.skew", "host.hung_task", "proxy.bad_gateway", "proxy.haproxy_slow",
  "proxy.upstream_timeout", "tcp.accept_queue_high", "tcp.listen_overflow", "proxy.upstream_hangs",
]
subject = "processors of {host}"
summary = "{host}: the kernel reports a stalled processor {messages} times in 5 minutes{processors_text}; last: {body}"
why = "A processor did not run its other tasks for over 20 s: the kernel ran in a loop or waited for a lock, or, on a virtual machine, the hypervisor did not let the processor run. What is bound to it (connections, timers, interrupts of the network card) stands still that long."
look_at = "On a virtual machine: steal of cpu_stat at that time, and whether the message came after a live migration, a snapshot or a pause (all processors at once). Else the kernel's trace below the message (`dmesg -T | grep -A 30 -E 'soft lockup|stall'`): always the same function or driver? Field `[name:pid]`: the task that ran."
silent_when = "The kernel logged no soft lockup, hard lockup or RCU stall within 5 minutes and since weir started. One message is a note: a virtual machine that was paused or moved prints one for each processor."
fix = "Virtual machine: move it to another host or take a class with reserved processors, if steal is above a few per cent. Else update the kernel and the firmware; a stall in one driver's functions (network card, disk controller, ZFS): update that driver. Check: no new message for a day under the same load. Raising kernel.watchdog_thresh only hides the message."
source = "kernel kernel/watchdog.c; kernel/rcu/tree_stall.h; Documentation/admin-guide/lockup-watchdogs.rst; moby#36675, harvester#564"
[chart]
title = "Stolen CPU time, seconds since boot"
unit = "s"
sql = """
select ts, steal_seconds_total as steal from cpu_stat
where cpu = 'all' and host = {host} and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with told as (
  select host, count(*) as messages, count(distinct subject) as processors, max(body) as body
  from kmsg
  where kind = 'cpu_stalled' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now
  group by host
)
select host, messages, body,
  case when processors > 1 then concat(' (', processors, ' processors)') else '' end as processors_text,
  case when messages = 1 then 'note' else 'mail' end as class
from told
