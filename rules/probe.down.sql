/*---
id = "probe.down"
title = "Target down, seen from outside"
tier = "proxy"
class = "mail"
for = "0s"
every = "5s"
clear = "30s"
key = ["kind", "target", "prober"]
needs = ["check_result"]
when = "select 1 from check_result where status = 'critical' and kind in ('http', 'tcp', 'tls', 'dns', 'icmp') and ts > $now - interval '65 minutes' and ts <= $now limit 1"
explains = ["slo.burning"]
subject = "{shown}"
summary = "{summary_text}"
why = "{why_text}"
look_at = "`select ts, host, zone, status, output, duration_seconds from check_result where target = '{target}' order by ts desc limit 20`: which hosts fail, since when. From a host that fails: `curl -v`, `dig`, `mtr` to the target."
silent_when = "The newest result of a probe is not critical, or expired (check.stale, weir.agent_silent); a host that probes a target alone must fail twice in a row. A page only if two or more and most of the hosts that probe it fail, in two or more zones (`[collect] zone`); from one zone it is a mail, from a minority a note. A host that fails all of its targets while another host reaches one of them is the fault itself and has no vote."
fix = "{fix_text}"
source = "blackbox probing; louislam/uptime-kuma#84"
[text.summary_text]
quorum = "{target} is down ({kind}): {failing} of {probers} hosts in {failing_zones} zones cannot reach it; {host_list}: {output}"
zone = "{target} is unreachable from {zone_list} ({kind}): {failing} of {probers} hosts fail, no other zone probes it; {host_list}: {output}"
minority = "{target} fails from {failing} of {probers} hosts ({kind}); {host_list}: {output}"
prober = "{prober} fails all of its {failing} probes while other hosts reach the same targets: its own network is at fault; {output}"
[text.why_text]
target = "Clients outside see what these hosts see: an error page, a refused or a silent connection. Two zones that agree exclude the network of one of them."
unsure = "Either the target fails, or the network between: one zone alone cannot tell. Clients of that network are affected in both cases."
prober = "Its results say nothing about the targets, so they are not counted as votes."
[text.fix_text]
target = "Bring {target} back: on its hosts the findings of the same minute have the cause. Check: its rows in check_result are ok."
unsure = "Probe {target} from hosts of a second zone (docs/checks.md#outside), so that a page is possible; then compare. Check: its rows in check_result are ok."
prober = "Repair the network of {prober}: its routes, its name server (dns.resolver_slow), its firewall. Check: its rows in check_result are ok."
---*/
with results as (
  select host, kind, target, status, output, coalesce(zone, '') as zone, ts,
    row_number() over (partition by host, kind, target order by ts desc) as place
  from check_result
  where ts > $now - interval '65 minutes' and ts <= $now and expires_ts > $now
    and kind in ('http', 'tcp', 'tls', 'dns', 'icmp')
),
-- What could not be done is no vote.
votes as (
  select host, kind, target, max(zone) as zone, max(case when place = 1 then output end) as output,
    max(case when place = 1 then status end) = 'critical' as is_down,
    count(*) filter (where place <= 2 and status = 'critical') = 2 as is_down_twice
  from results
  where place <= 2
  group by host, kind, target
  having max(case when place = 1 then status end) <> 'unknown'
),
reached as (
  select kind, target, count(*) filter (where not is_down) as successes, count(*) as hosts
  from votes
  group by kind, target
),
hosts as (
  select v.host, count(*) as targets, count(*) filter (where v.is_down) as failing,
    count(*) filter (where r.successes > 0) as reached_by_others, max(v.output) as output
  from votes v
  join reached r on r.kind = v.kind and r.target = v.target
  group by v.host
),
faulty as (
  select host, failing, output from hosts
  where targets >= 2 and failing = targets and reached_by_others > 0
),
counted as (
  select v.kind, v.target, count(*) as probers, count(*) filter (where v.is_down) as failing,
    count(distinct v.zone) as zones, count(distinct case when v.is_down then v.zone end) as failing_zones,
    count(*) filter (where v.is_down_twice) as twice,
    max(case when v.is_down then v.output end) as output,
    string_agg(distinct case when v.is_down then v.host end, ', ') as host_list,
    string_agg(distinct case when v.is_down then case when v.zone = '' then 'an unnamed zone' else v.zone end end, ', ') as zone_list
  from votes v
  left join faulty f on f.host = v.host
  where f.host is null
  group by v.kind, v.target
),
judged as (
  select *, failing >= 2 and failing * 2 > probers and failing_zones >= 2 as is_quorum,
    failing * 2 > probers as is_majority
  from counted
  where failing > 0
)
select '' as host, kind, target, '' as prober, target as shown, probers, failing, failing_zones, host_list, zone_list,
  coalesce(substr(output, 1, 60), '') as output,
  case when is_quorum then 'quorum' when is_majority and zones = 1 then 'zone' else 'minority' end as summary_text,
  case when is_quorum then 'target' else 'unsure' end as why_text,
  case when is_quorum then 'target' else 'unsure' end as fix_text,
  case when is_quorum then 'page' when is_majority then 'mail' else 'note' end as class,
  is_quorum or failing >= 2 or twice >= 1 as opens
from judged
union all
select host, '' as kind, '' as target, host as prober, concat('probes of ', host) as shown, 1 as probers, failing, 1 as failing_zones,
  host as host_list, '' as zone_list, coalesce(substr(output, 1, 60), '') as output,
  'prober' as summary_text, 'prober' as why_text, 'prober' as fix_text, 'mail' as class, true as opens
from faulty
