/*---
id = "host.hardware_error"
title = "Hardware reports errors or overheats"
tier = "host"
class = "mail"
for = "0s"
every = "30s"
clear = "30m"
key = ["part"]
needs = ["kmsg"]
when = "select 1 from kmsg where kind in ('memory_corrected', 'memory_lost', 'machine_corrected', 'machine_check', 'overheated') and is_backlog is not true and ts > $now - interval '30 minutes' and ts <= $now limit 1"
explains = ["app.segfault"]
subject = "{part} of {host}"
summary = "{part} of {host}: {messages} messages of the hardware in 30 minutes{lost_text}; last: {body}"
why = "{why_text}"
look_at = "`journalctl -k | grep -E 'Hardware Error|EDAC|Memory failure|throttled'`: always the same module, processor or slot? `ras-mc-ctl --errors` or `mcelog` name it, `ipmitool sel elist` has the board's own log, `sensors` the temperatures."
silent_when = "The kernel logged none within 30 minutes and since weir started. What the hardware corrected, and heat, are notes up to 9 messages and mails from 10 on; what it could not correct is a mail."
fix = "{fix_text}"
source = "kernel drivers/edac, arch/x86/kernel/cpu/mce, drivers/acpi/apei/ghes.c, drivers/thermal/intel/therm_throt.c; Documentation/admin-guide/RAS"
[text.why_text]
heat = "The processor is too hot and runs slower until it has cooled down: everything on the host slows with it."
corrected = "The hardware corrected an error of a memory module, a cache or a link. Single ones are normal; a series from one module mostly ends with one that cannot be corrected."
lost = "The hardware could not correct an error: a page of memory is lost, the process that used it is killed, or data that it wrote may be wrong."
[text.fix_text]
heat = "Fans, dust, heat sink, the room; a rented machine: a ticket to the provider with these lines. Check: no new line under the same load."
corrected = "Note the module or slot and have it replaced at a quiet time if they go on. Check: no new message for a week."
lost = "Move the load to another host now, then have the part replaced (a rented machine: a ticket with these lines). Check what the host wrote in that time against another copy. Check: no new message for a week."
[text.lost_text]
no = ""
yes = ", {lost} of them not corrected"
---*/
with told as (
  select host,
    case when kind = 'overheated' then 'processor temperature' when kind like 'memory_%' then 'memory' else 'hardware' end as part,
    count(*) as messages, count(*) filter (where kind in ('memory_lost', 'machine_check')) as lost, max(body) as body
  from kmsg
  where kind in ('memory_corrected', 'memory_lost', 'machine_corrected', 'machine_check', 'overheated') and is_backlog is not true
    and ts > $now - interval '30 minutes' and ts <= $now
  group by 1, 2
)
select host, part, messages, lost, body,
  case when lost > 0 then 'yes' else 'no' end as lost_text,
  case when part = 'processor temperature' then 'heat' when lost > 0 then 'lost' else 'corrected' end as why_text,
  case when part = 'processor temperature' then 'heat' when lost > 0 then 'lost' else 'corrected' end as fix_text,
  case when lost > 0 or messages >= 10 then 'mail' else 'note' end as class
from told
