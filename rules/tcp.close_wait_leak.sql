/*---
id = "tcp.close_wait_leak"
title = "A process does not close connections that its peers have closed: a leak"
tier = "app"
class = "mail"
for = "30s"
every = "30s"
clear = "3m"
key = ["netns"]
needs = ["sock_stat"]
when = "select 1 from sock_stat where tcp_close_wait >= 20 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
subject = "CLOSE_WAIT in netns {netns} of {host}"
summary = "sockets in CLOSE_WAIT in netns {netns} of {host} only become more: at least {first_count}, {second_count}, {third_count}, {now_count} in the last four minutes"
why = "The peer has closed its side, the kernel has told the process, and the process never calls close(). Each such socket keeps a file descriptor; when they are used up, it can accept nothing more (app.fd_limit). No time-out of the kernel ends CLOSE_WAIT."
look_at = "Whose they are: `ss -tnp state close-wait`. The peer's port says which client library: a database, a cache, an API, or visitors. `ls /proc/PID/fd | wc -l` against `Max open files` in /proc/PID/limits gives the time that is left."
silent_when = "Fewer than 20 in each of the last 30 s, or their smallest number per minute did not rise by at least 5 in each of the last three minutes: sockets that are closed within a minute do not count, whatever their number. A protocol that keeps half of a connection open on purpose has a steady number. It goes on while at least nine tenths of them are still there."
fix = "In the program: close the connection when read() gives 0 bytes or an error, on every path (`with`, `defer resp.Body.Close()`, try-with-resources), also for connections from a pool that were idle. Until then restart the process before its descriptors are used up; a higher LimitNOFILE only buys time. Check: the number falls to near 0 after the restart and stays there. Do not lower net.ipv4.tcp_keepalive_time for it: the peer has closed already, so nothing is probed."
source = "fault lab F31 (60, 120, 180 sockets, descriptors with them); RFC 9293, CLOSE-WAIT"
[chart]
title = "Sockets in CLOSE_WAIT"
unit = ""
sql = """
select ts, tcp_close_wait as close_wait from sock_stat
where host = {host} and netns = {netns} and tcp_close_wait is not null and ts > $now - interval '1 hour' and ts <= $now order by ts"""
---*/
with minutes as (
  select host, netns,
    min(tcp_close_wait) filter (where ts <= $now - interval '3 minutes') as first_count,
    min(tcp_close_wait) filter (where ts > $now - interval '3 minutes' and ts <= $now - interval '2 minutes') as second_count,
    min(tcp_close_wait) filter (where ts > $now - interval '2 minutes' and ts <= $now - interval '1 minute') as third_count,
    min(tcp_close_wait) filter (where ts > $now - interval '1 minute') as now_count,
    max(tcp_close_wait) as most
  from sock_stat
  where tcp_close_wait is not null and ts > $now - interval '4 minutes' and ts <= $now
  group by host, netns
)
select host, netns, first_count, second_count, third_count, now_count, most,
  second_count >= first_count + 5 and third_count >= second_count + 5 and now_count >= third_count + 5 as opens
from minutes
where now_count >= 20 and now_count * 2 >= most
