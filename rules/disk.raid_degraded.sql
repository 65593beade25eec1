/*---
id = "disk.raid_degraded"
title = "RAID array degraded"
tier = "disk"
class = "page"
for = "0s"
every = "10s"
clear = "1m"
key = ["array"]
needs = ["raid"]
when = "select 1 from raid where (members_present < members_wanted or failed_members is not null or not is_active) and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{array} of {host}"
summary = "array {array} ({level_text}) of {host} {what_text}{sync_text}; members: {members}"
why = "{why_text}"
look_at = "`mdadm --detail /dev/{array}`, `cat /proc/mdstat`, and the kernel's messages about the member: `dmesg | grep -i -e md/ -e 'I/O error'`. The disk's own health: `smartctl -a /dev/DISK`. Is it the disk, its cable or its slot?"
silent_when = "All members of the array work. During a recovery onto a new member it is a mail: repair is in progress. An array created with an empty slot on purpose (`missing`) is reported as well. Hardware controllers and ZFS are not in /proc/mdstat."
fix = "{fix_text} Check: /proc/mdstat shows a `U` for every member. Do not run `mdadm --create` on the members, it overwrites them; do not stop a degraded array in use."
source = "md(4), mdadm(8); field notes B"
[text.what_text]
inactive = "is not running"
failed = "runs with {members_present} of {members_wanted} members, failed: {failed_members}"
spare_failed = "has a failed member: {failed_members}"
missing = "runs with {members_present} of {members_wanted} members"
[text.why_text]
inactive = "Nothing on it can be read. It was assembled incompletely at boot, or stopped."
one_left = "One more disk can fail without data loss, no further one."
none_left = "The next disk failure loses the data. Reads may be slower until it is rebuilt."
[text.fix_text]
inactive = "Find out why: `mdadm --examine` on each member; if they are all in order, `mdadm --stop /dev/{array}` and `mdadm --assemble --scan`."
recovering = "Wait for the recovery; `/proc/sys/dev/raid/speed_limit_max` trades its speed against other reads."
failed = "Replace the failed member: `mdadm /dev/{array} --remove /dev/{failed_member}`, change the disk, partition it like its siblings (`sfdisk -d GOOD | sfdisk NEW`), `mdadm /dev/{array} --add /dev/NEW`. The rebuild slows reads: do it at night if it can wait."
missing = "Add a member: `mdadm /dev/{array} --re-add /dev/MEMBER` if the disk is healthy and was only disconnected, else `--add` a new one."
---*/
with newest as (
  select *, row_number() over (partition by host, array order by ts desc) as place
  from raid
  where ts > $now - interval '30 seconds' and ts <= $now
),
broken as (
  select *, coalesce(members_wanted - members_present, 0) as missing,
    sync_action in ('recovery', 'reshape') as is_recovering
  from newest
  where place = 1 and (members_present < members_wanted or failed_members is not null or not is_active)
)
select host, array, level, members_wanted, members_present, members, failed_members, sync_action, sync_ratio, is_active,
  split_part(failed_members, ' ', 1) as failed_member,
  coalesce(level, 'inactive') as level_text,
  case
    when not is_active then 'inactive'
    when failed_members is not null and missing > 0 then 'failed'
    when failed_members is not null then 'spare_failed'
    else 'missing'
  end as what_text,
  case when is_recovering and sync_finish_seconds is not null
    then concat('; ', sync_action, ' is at ', cast(round(coalesce(sync_ratio, 0) * 100) as bigint), ' %, done in about ', cast(round(sync_finish_seconds / 60) as bigint), ' min')
    else '' end as sync_text,
  case when not is_active then 'inactive'
    when level in ('raid6') and missing = 1 then 'one_left'
    else 'none_left' end as why_text,
  case when is_recovering then 'mail'
       when not is_active then 'mail'
       else 'page' end as class,
  case
    when not is_active then 'inactive'
    when is_recovering then 'recovering'
    when failed_members is not null then 'failed'
    else 'missing'
  end as fix_text
from broken
