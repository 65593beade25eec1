/*---
id = "weir.store_damaged"
title = "Stored rows damaged, missing or held back"
tier = "log"
class = "page"
for = "0s"
every = "10s"
clear = "60s"
key = ["kind"]
needs = ["store_fault"]
when = "select 1 from store_fault where ts > $now - interval '30 seconds' and ts <= $now limit 1"
subject = "store of {host}: {kind}"
summary = "{what} on {host}: {message}"
why = "Answers that need a damaged file fail, and its rows are lost unless a backup has them. Damage is rarely alone: it comes from a failing disk, controller or memory. Rows that are held back are deleted when the clock keeps its new time."
look_at = "`select ts, kind, path, message from store_fault order by ts desc limit 20`, `weir store check`, then `dmesg`, `smartctl -a` and the ECC counters of {host}. For held rows: `timedatectl`, and when the hub was off."
silent_when = "Every file that the manifest names is there with its size and its checksums, the last start found the log whole, and no expiry waits for the clock. A file is read when a query needs it, and at least every `store.scrub_days` (30)."
fix = "{fix_text} Check: the finding resolves within 90 s."
source = "field case of bit flips in Parquet files; VictoriaMetrics/VictoriaMetrics#10076"
[text.what]
missing_file = "a data file is missing"
damaged_file = "a data file is damaged"
damaged_log = "records of the write-ahead log are lost"
retention_held = "expired rows are held back"
[text.fix_text]
missing_file = "Put the file back from the newest backup (`weir restore` into another directory); without one stop weir and run `weir store repair`."
damaged_file = "Check the disk first. Then stop weir and put the file back from the newest backup, or run `weir store repair`: it keeps the rows that can be read."
damaged_log = "Check the disk. What was set aside is in `wal/*.damaged` of the data directory; agents send again what they still have. A restart ends this finding."
retention_held = "Set the clock right if it is wrong. To keep the rows although it is right, raise `store.retention_days`. After the deletion `weir store undelete` restores them for a day."
---*/
with newest as (
  select *, row_number() over (partition by host, kind order by ts desc, path) as place
  from store_fault
  where ts > $now - interval '30 seconds' and ts <= $now
)
select host, kind, path, fault_count,
  case
    when kind = 'missing_file' then 'missing_file' when kind = 'damaged_file' then 'damaged_file'
    when kind = 'damaged_log' then 'damaged_log' else 'retention_held'
  end as what,
  case
    when kind = 'missing_file' then 'missing_file' when kind = 'damaged_file' then 'damaged_file'
    when kind = 'damaged_log' then 'damaged_log' else 'retention_held'
  end as fix_text,
  case when kind = 'retention_held' then 'mail' else 'page' end as class,
  case when path = '' then message else concat('`', path, '` ', message) end as message
from newest
where place = 1
