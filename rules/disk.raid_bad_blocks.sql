/*---
id = "disk.raid_bad_blocks"
title = "Unreadable sectors on a RAID member"
tier = "disk"
class = "mail"
for = "0s"
every = "10s"
clear = "1m"
key = ["array", "member", "device"]
needs = ["raid_member", "raid", "block_device"]
when = "select 1 from raid_member where (bad_sectors > 0 or bad_sectors_unacknowledged > 0 or state like '%want_replacement%' or state like '%write_error%') and ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "{member} in {array} of {host}"
summary = "{member} in array {array} of {host} {what_text}; the array itself reports {slots_text}{other_text}"
why = "{why_text}{place_text}"
look_at = "`mdadm --examine-badblocks /dev/{member}`, `smartctl -a /dev/{device}` (Reallocated, Pending, Offline_Uncorrectable), `dmesg | grep {device}`. /proc/mdstat does not show this, and `errors` of the member may be 0."
silent_when = "No member has sectors in its bad block list, and none is marked write_error or want_replacement. Members that have failed are disk.raid_degraded. Read errors that were corrected by a rewrite leave no entry. It is a note while `mdadm --replace` fills the replacement."
fix = "{fix_text} Check: `cat /sys/block/{array}/md/dev-*/bad_blocks` prints nothing for the new member. Fail out no other member of the array before that, and do not clear the list with `--force-no-bbl`: it hides the loss."
source = "kernel Documentation/admin-guide/md.rst (state, bad_blocks), mdadm(8) --replace; seen on a real array with a bad sector"
explains = ["disk.io_error"]
[text.what_text]
sectors = "has {bad_sectors} unreadable sectors (first {bad_sector_first})"
unsaved = "has {bad_sectors_unacknowledged} unreadable sectors, not yet recorded in its metadata"
marked = "is marked {state}"
[text.why_text]
redundant = "The kernel reads these sectors from the other members only. If one of those fails, or is failed out, the data in them is lost."
thin = "The array has no spare copy now: what is in these sectors cannot be read, and a rebuild leaves a hole there."
both = "Another member has the same first unreadable sector: that data may have no readable copy."
marked = "A write to it failed, or the kernel asks for its replacement. The data is still there, on a disk that is failing."
[text.fix_text]
replace = "Replace the disk while it still serves the rest: `mdadm /dev/{array} --add /dev/NEW`, then `mdadm /dev/{array} --replace /dev/{member} --with /dev/NEW`, so that the array stays redundant meanwhile."
copy = "Copy what has no backup now, then bring the missing member back (`--re-add`) before this one is replaced. Files in these sectors come from a backup."
running = "Wait: {replacement} is being filled as its replacement (`cat /proc/mdstat`). Then `mdadm /dev/{array} --remove /dev/{member}`."
[text.place_text]
mounted = " On the array: {mount_points}."
unknown = ""
[text.other_text]
other = "; {others} also has some"
none = ""
---*/
with newest as (
  select *, row_number() over (partition by host, array, device order by ts desc) as place
  from raid_member
  where ts > $now - interval '30 seconds' and ts <= $now
),
ill as (
  select *, coalesce(bad_sectors, 0) + coalesce(bad_sectors_unacknowledged, 0) as sectors
  from newest
  where place = 1 and state not like '%faulty%'
    and (bad_sectors > 0 or bad_sectors_unacknowledged > 0 or state like '%want_replacement%' or state like '%write_error%')
),
pairs as (
  select i.host, i.array, i.device, string_agg(o.device, ', ' order by o.device) as others,
    bool_or(i.bad_sector_first = o.bad_sector_first) as is_same
  from ill i
  join ill o on o.host = i.host and o.array = i.array and o.device <> i.device and o.sectors > 0
    and coalesce(o.mirror_set, -1) = coalesce(i.mirror_set, -1)
  where i.sectors > 0
  group by i.host, i.array, i.device
),
arrays as (
  select host, array, slots, members_present, members_wanted, failures_left,
    row_number() over (partition by host, array order by ts desc) as place
  from raid
  where ts > $now - interval '30 seconds' and ts <= $now
),
places as (
  select host, device, max(mount_points) as mount_points from block_device
  where ts > $now - interval '3 minutes' and ts <= $now and kind = 'raid'
  group by host, device
),
partners as (
  select i.host, i.array, i.device, count(*) filter (where o.state like '%in_sync%') as copies
  from ill i
  join newest o on o.host = i.host and o.array = i.array and o.mirror_set = i.mirror_set and o.device <> i.device and o.place = 1
  group by i.host, i.array, i.device
),
-- Takes over the slot of the member when it is full.
replacements as (
  select i.host, i.array, i.device, min(o.device) as replacement
  from ill i
  join newest o on o.host = i.host and o.array = i.array and o.slot = i.slot and o.device <> i.device and o.place = 1
  where i.state like '%want_replacement%' and o.state like '%replacement%' and o.state not like '%want_replacement%' and o.state not like '%faulty%'
  group by i.host, i.array, i.device
),
judged as (
  select i.*, r.replacement, a.slots, a.members_present, a.members_wanted, p.others, p.is_same, m.mount_points,
    i.sectors > 0 and case when i.mirror_set is not null then coalesce(c.copies, 0) = 0
      else coalesce(a.failures_left, 1) <= 0 end as is_thin
  from ill i
  left join arrays a on a.host = i.host and a.array = i.array and a.place = 1
  left join pairs p on p.host = i.host and p.array = i.array and p.device = i.device
  left join places m on m.host = i.host and m.device = i.array
  left join replacements r on r.host = i.host and r.array = i.array and r.device = i.device
  left join partners c on c.host = i.host and c.array = i.array and c.device = i.device
)
select host, array, device as member, disk as device, state, bad_sectors, bad_sectors_unacknowledged, bad_sector_first, errors_total, others, mount_points, replacement,
  case when slots is null then 'nothing' else concat('[', members_wanted, '/', members_present, '] [', slots, ']') end as slots_text,
  case when bad_sectors > 0 then 'sectors' when bad_sectors_unacknowledged > 0 then 'unsaved' else 'marked' end as what_text,
  case when is_thin then 'thin' when coalesce(is_same, false) then 'both' when sectors > 0 then 'redundant' else 'marked' end as why_text,
  case when replacement is not null then 'running' when is_thin then 'copy' else 'replace' end as fix_text,
  case when mount_points is not null then 'mounted' else 'unknown' end as place_text,
  case when others is not null then 'other' else 'none' end as other_text,
  case when is_thin or coalesce(is_same, false) then 'page' when replacement is not null then 'note' else 'mail' end as class
from judged
