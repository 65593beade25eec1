/*---
id = "disk.raid_degraded"
title = "RAID array degraded"
tier = "disk"
class = "page"
for = "0s"
every = "10s"
clear = "1m"
key = ["array"]
needs = ["raid", "raid_member", "block_device"]
when = "select 1 from raid where (members_present < members_wanted or failed_members is not null or not is_active or array_state = 'broken') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{array} of {host}"
summary = "array {array} ({level_text}) of {host} {what_text}{sync_text}; members: {members}"
why = "{why_text}{place_text}"
look_at = "`mdadm --detail /dev/{array}`, `cat /proc/mdstat`, and the kernel's messages about the member: `dmesg | grep -i -e md/ -e 'I/O error'`. The disk's own health: `smartctl -a /dev/DISK`. Is it the disk, its cable or its slot?"
silent_when = "All members of the array work. Containers of Intel (imsm) and DDF arrays are always inactive; only the arrays in them count. It is a mail while a disk can still fail without data loss, and during a recovery; a note for mirrors of 8 slots and more that were never filled (the system arrays of QNAP and Synology), and for those with 3 copies left. An array of fewer slots created with an empty one on purpose (`missing`) is reported. Hardware controllers and ZFS are not in /proc/mdstat."
fix = "{fix_text} Check: /proc/mdstat shows a `U` for every member. Do not run `mdadm --create` on the members, it overwrites them; do not stop a degraded array in use."
source = "md(4), mdadm(8), kernel drivers/md/md.c (md_seq_show); field notes B"
[text.what_text]
inactive = "is not running"
broken = "has lost a member and cannot be read in full"
failed = "runs with {members_present} of {members_wanted} members, failed: {failed_members}"
spare_failed = "has a failed member: {failed_members}"
missing = "runs with {members_present} of {members_wanted} members"
[text.why_text]
inactive = "Nothing on it can be read. It was assembled incompletely at boot, or stopped."
lost = "More members are missing than level {level} tolerates: reads and writes of the missing part fail."
none_left = "The next disk failure loses the data. Reads may be slower until it is rebuilt."
none_left_pair = "The data has no other copy if {partners} fails next; other members may fail. Reads may be slower until it is rebuilt."
some_left = "Disks that can still fail without data loss: {failures_left}."
whole = "All slots are in use; the failed disk is only still listed as a member."
slots = "A mirror over many slots, of which the NAS fills one for each disk: {failures_left} more disks can fail without data loss."
slots_single = "A mirror over many slots, of which the NAS fills one for each disk. With a single disk there is no second copy."
[text.fix_text]
inactive = "Find out why: `mdadm --examine` on each member; if they are all in order, `mdadm --stop /dev/{array}` and `mdadm --assemble --scan`."
broken = "Bring the missing members back (cable, controller, cloud volume), then `mdadm --stop /dev/{array}` and `mdadm --assemble /dev/{array}` with all of them; else restore a backup. Image the members before any attempt with `--force`."
recovering = "Wait for the recovery; `/proc/sys/dev/raid/speed_limit_max` trades its speed against other reads."
failed = "Replace the failed member: `mdadm /dev/{array} --remove /dev/{failed_member}`, change the disk, partition it like its siblings (`sfdisk -d GOOD | sfdisk NEW`), `mdadm /dev/{array} --add /dev/NEW`. The rebuild slows reads: do it at night if it can wait."
missing = "Add a member: `mdadm /dev/{array} --re-add /dev/MEMBER` if the disk is healthy and was only disconnected, else `--add` a new one. If the slot is meant to be empty: `mdadm --grow /dev/{array} --raid-devices={members_present}` (RAID 1)."
slots = "Nothing, if the NAS has as many disks as the array has members in use; else find the missing disk in the NAS' storage manager."
[text.place_text]
mounted = " On it: {mount_points}."
unknown = ""
---*/
with newest as (
  select *, row_number() over (partition by host, array order by ts desc) as place
  from raid
  where ts > $now - interval '30 seconds' and ts <= $now
),
judged as (
  select *, coalesce(members_wanted - members_present, 0) as missing,
    sync_action in ('recovery', 'reshape') as is_recovering,
    coalesce(failures_left, case
      when level = 'raid1' then members_present - 1
      when level = 'raid6' then 2 - (members_wanted - members_present)
      else 1 - (members_wanted - members_present) end) as left_over,
    level = 'raid1' and members_wanted >= 8 and failed_members is null as has_many_slots
  from newest
  where place = 1
),
broken as (
  select *,
    array_state = 'broken' or left_over < 0 and is_active as is_lost
  from judged
  where missing > 0 or failed_members is not null or array_state = 'broken'
    or (not is_active and members <> '' and not (coalesce(metadata, '') like 'external:%' and metadata not like 'external:/%' and metadata not like 'external:-%'))
),
places as (
  select host, device, max(mount_points) as mount_points from block_device
  where ts > $now - interval '3 minutes' and ts <= $now and kind = 'raid'
  group by host, device
),
member_now as (
  select host, array, device, mirror_set, slot, state,
    row_number() over (partition by host, array, device order by ts desc) as place
  from raid_member
  where ts > $now - interval '30 seconds' and ts <= $now
),
-- Mirror sets with a single good copy; a set without any has no row here.
thin as (
  select host, array, mirror_set, count(*) as copies, max(device) as device
  from member_now
  where place = 1 and mirror_set is not null and slot is not null and state like '%in_sync%'
  group by host, array, mirror_set
  having count(*) = 1
),
partner as (
  select host, array, string_agg(device, ' or ' order by device) as partners from thin group by host, array
)
select b.host, b.array, b.level, b.members_wanted, b.members_present, b.members, b.failed_members, b.sync_action, b.sync_ratio,
  b.is_active, b.array_state, b.metadata, b.left_over as failures_left, r.partners, p.mount_points,
  split_part(b.failed_members, ' ', 1) as failed_member,
  coalesce(b.level, 'inactive') as level_text,
  case
    when b.array_state = 'broken' then 'broken'
    when not b.is_active then 'inactive'
    when b.failed_members is not null and b.missing > 0 then 'failed'
    when b.failed_members is not null then 'spare_failed'
    else 'missing'
  end as what_text,
  case when b.is_recovering and b.sync_finish_seconds is not null
    then concat('; ', b.sync_action, ' is at ', cast(round(coalesce(b.sync_ratio, 0) * 100) as bigint), ' %, done in about ', cast(round(b.sync_finish_seconds / 60) as bigint), ' min')
    when b.is_recovering and b.sync_ratio is null then concat('; ', b.sync_action, ' waits for a sync of another array')
    else '' end as sync_text,
  case when b.is_lost then 'lost'
    when not b.is_active then 'inactive'
    when b.missing <= 0 then 'whole'
    when b.has_many_slots and b.left_over > 0 then 'slots'
    when b.has_many_slots then 'slots_single'
    when b.left_over > 0 then 'some_left'
    when b.level = 'raid10' and r.partners is not null then 'none_left_pair'
    else 'none_left' end as why_text,
  case when b.is_lost then 'page'
       when b.is_recovering or not b.is_active or b.missing <= 0 then 'mail'
       when b.has_many_slots then 'note'
       when b.level = 'raid1' and b.left_over >= 2 and b.failed_members is null then 'note'
       when b.left_over > 0 then 'mail'
       else 'page' end as class,
  case
    when b.array_state = 'broken' then 'broken'
    when not b.is_active then 'inactive'
    when b.is_recovering then 'recovering'
    when b.failed_members is not null then 'failed'
    when b.has_many_slots then 'slots'
    else 'missing'
  end as fix_text,
  case when p.mount_points is not null then 'mounted' else 'unknown' end as place_text
from broken b
left join places p on p.host = b.host and p.device = b.array
left join partner r on r.host = b.host and r.array = b.array
