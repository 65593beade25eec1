/*---
id = "clock.unsynced"
title = "Host clock not synchronised, or stepped"
tier = "host"
class = "note"
for = "0s"
every = "60s"
clear = "3m"
key = ["what"]
needs = ["clock_stat"]
when = "select 1 from clock_stat where (not is_synchronized or step_seconds is not null) and ts > $now - interval '10 minutes' and ts <= $now limit 1"
subject = "clock of {host}"
summary = "{summary_text}"
why = "Timestamps in logs, certificates, tokens and replication all depend on the clock. A quartz drifts by seconds a day; after a step, durations measured across it are wrong, and timers fire at once or not at all."
look_at = "`timedatectl`, `chronyc tracking`, `systemctl status chrony systemd-timesyncd ntp`. After a step: what set it (`journalctl -u chrony`), did the machine sleep or migrate to another host?"
silent_when = "A time daemon keeps the kernel clock synchronised, or stopped less than an hour ago; steps of less than 1 s. In containers this is the host's state. A guest whose hypervisor keeps the clock (unknown to the kernel) is reported too, so this is only a note."
fix = "`apt-get install chrony && systemctl enable --now chrony` (one daemon only: stop systemd-timesyncd and ntpd). It slews small differences; `makestep 1 3` in /etc/chrony/chrony.conf allows a step in the first three updates only, so that a running database sees no jump. Check: `chronyc tracking` shows `Leap status: Normal`, is_synchronized of clock_stat is true."
source = "adjtimex(2), STA_UNSYNC; fault lab F20"
---*/
with rows as (
  select host, ts, is_synchronized, max_error_seconds, step_seconds
  from clock_stat
  where ts > $now - interval '70 minutes' and ts <= $now
),
unsynced as (
  select host, 'unsynced' as what, max(max_error_seconds) as max_error_seconds, cast(null as double) as step_seconds,
    date_part('epoch', max(ts)) - date_part('epoch', min(ts)) as span_seconds
  from rows
  group by host
  having bool_and(not is_synchronized) and date_part('epoch', max(ts)) - date_part('epoch', min(ts)) >= 3600
),
stepped as (
  select host, 'step' as what, cast(null as double) as max_error_seconds, max(step_seconds) filter (where abs(step_seconds) > 1) as step_seconds,
    cast(null as double) as span_seconds
  from rows
  where ts > $now - interval '10 minutes'
  group by host
  having count(*) filter (where abs(step_seconds) > 1) > 0
)
select host, what, max_error_seconds, step_seconds, span_seconds,
  case when what = 'step' then concat('the clock of ', host, ' was stepped by ', cast(round(step_seconds * 10) / 10 as varchar), ' s in the last 10 minutes')
    else concat('no time daemon has synchronised the clock of ', host, ' for an hour (kernel error estimate ', cast(round(max_error_seconds * 10) / 10 as varchar), ' s)') end as summary_text
from (select * from unsynced union all select * from stepped) as both
