/*---
id = "host.hung_task"
title = "Task hung in the kernel for two minutes"
tier = "host"
class = "mail"
for = "0s"
every = "10s"
clear = "5m"
key = []
needs = ["kmsg", "cpu_stat", "listener"]
when = "select 1 from kmsg where kind = 'hung_task' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now limit 1"
explains = ["app.requests_stopped", "proxy.bad_gateway"]
subject = "{tasks} on {host}"
summary = "{host}: {tasks} blocked in the kernel for over two minutes ({messages} messages in 5 minutes); {blocked:.0} threads blocked now"
why = "The task waits in the kernel for something that does not come: mostly an unresponsive disk or network file system, sometimes a lock. It ignores signals, so it cannot be killed, and what it holds stays locked for all others."
look_at = "The kernel's trace below the message (`dmesg -T | grep -A 30 'blocked for more'`): a file system (ext4, xfs, nfs) or md in it shows what it waits for. disk.stuck and disk.slow of this host; for NFS, its server and the network to it. `echo w > /proc/sysrq-trigger` logs all blocked tasks."
silent_when = "The kernel logged no such message within 5 minutes. It logs at most 10 (kernel.hung_task_warnings) per boot, so later ones may be missing, and none when kernel.hung_task_timeout_secs = 0. It is a page when a process of that name had a listening socket."
fix = "Fix what it waits for: the stalled volume (disk.stuck), the NFS server (`mount | grep nfs`, then `umount -f -l MOUNT` if the server will not return). If nothing below is slow, it is a kernel bug: save the trace, then restart the host at a quiet time. Check: processes_blocked of cpu_stat returns to normal. Do not set hung_task_timeout_secs = 0 (it only hides the message) nor hung_task_panic = 1 where a slow disk would then restart the host."
source = "kernel kernel/hung_task.c; Documentation/admin-guide/sysctl/kernel.rst, hung_task_timeout_secs"
[chart]
title = "Blocked threads"
unit = ""
sql = """
select ts, processes_blocked as blocked from cpu_stat
where cpu = 'all' and host = {host} and ts > $now - interval '30 minutes' and ts <= $now order by ts"""
---*/
with told as (
  select host, string_agg(distinct coalesce(subject, 'a task'), ', ') as tasks, count(*) as messages, max(body) as body
  from kmsg
  where kind = 'hung_task' and is_backlog is not true and ts > $now - interval '5 minutes' and ts <= $now
  group by host
),
served as (
  select k.host, count(*) as n
  from kmsg k
  join listener l on l.host = k.host and k.subject = l.process_name
  where k.kind = 'hung_task' and k.is_backlog is not true and k.ts > $now - interval '5 minutes' and k.ts <= $now
    and l.ts > $now - interval '30 seconds' and l.ts <= $now
  group by k.host
),
blocked as (
  select host, avg(processes_blocked) as blocked
  from cpu_stat
  where cpu = 'all' and ts > $now - interval '30 seconds' and ts <= $now
  group by host
)
select t.host, t.tasks, t.messages, t.body, b.blocked,
  case when s.n > 0 then 'page' else 'mail' end as class
from told t
left join served s on s.host = t.host
left join blocked b on b.host = t.host
