/*---
id = "clock.hub_skew"
title = "Host clock differs from the hub's"
tier = "host"
class = "mail"
for = "10s"
every = "5s"
clear = "15s"
key = []
needs = ["agent_link"]
when = "select 1 from agent_link where abs(clock_offset_seconds) > 2 and ts > $now - interval '2 minutes' and ts <= $now limit 1"
explains = ["check.stale", "log.heartbeat_missing", "weir.agent_silent"]
subject = "clock of {host}"
summary = "the clock of {host} is {off_seconds:duration} {direction} the hub's; {others_text}"
why = "A host's rows carry the time of its own clock, and rules evaluate the hub's last seconds. A host that is behind looks silent, a host that is ahead is seen late, and the order of events across hosts is wrong."
look_at = "`timedatectl` and `chronyc tracking` on {host} and on the hub: which one is synchronised? If several hosts differ by the same amount, the hub is wrong. `select ts, host, clock_offset_seconds, round_trip_seconds from agent_link order by ts desc limit 50`."
silent_when = "At most 2 s apart, after subtracting half of the round-trip time. Connected agents are measured every 10 s; those that send without an invitation (http://127.0.0.1…) run on the hub's own host."
fix = "On the wrong host: `apt-get install chrony && systemctl enable --now chrony`, then `chronyc makestep` once, but not while a database runs there: chrony slews it (`maxslewrate` sets how fast). Check: clock_offset_seconds of agent_link is below 0.1 within a minute. Existing rows keep their times."
source = "NTP's offset and delay (RFC 5905, section 8); fault lab F20"
---*/
with heard as (
  select host, clock_offset_seconds as off, round_trip_seconds / 2 as doubt,
    row_number() over (partition by host order by ts desc) as place
  from agent_link
  where ts > $now - interval '2 minutes' and ts <= $now
),
now_off as (
  select host, off, abs(off) - doubt > 2 as is_off from heard where place = 1
),
fleet as (
  select count(*) as hosts, count(*) filter (where is_off) as off_hosts,
    max(off) filter (where is_off) - min(off) filter (where is_off) as spread
  from now_off
)
select n.host, abs(n.off) as off_seconds, case when n.off > 0 then 'ahead of' else 'behind' end as direction,
  f.hosts, f.off_hosts,
  case when f.off_hosts >= 3 and f.off_hosts * 2 > f.hosts and f.spread < 4
    then concat(cast(f.off_hosts as varchar), ' of ', cast(f.hosts as varchar), ' hosts differ by the same amount: the hub''s clock is wrong')
    else concat(cast(f.off_hosts as varchar), ' of ', cast(f.hosts as varchar), ' hosts differ') end as others_text,
  case when abs(n.off) > 30 then 'page' else 'mail' end as class
from now_off n cross join fleet f
where n.is_off
