/*---
id = "log.ship_lag"
title = "Log shipping lags more than 30 s"
tier = "log"
class = "mail"
for = "10s"
every = "5s"
clear = "20s"
key = ["source"]
needs = ["ship"]
when = "select 1 from ship where lag_seconds > 30 and ts > $now - interval '60 seconds' and ts <= $now limit 1"
explains = [
  "app.requests_stopped", "app.throughput_drop", "clock.skew", "log.rotated_unfinished",
  "traffic.unusual",
]
subject = "{source} on {host}"
summary = "{source} on {host} lags {lag_seconds} s: {lag_mebibytes} MiB waiting, {acknowledged_rate} KiB/s shipped, {written_rate} KiB/s written; {outlook}; {held_by}"
why = "Unshipped lines are invisible to searches and rules: findings about this log come late. If the file is rotated and deleted before it was read, the lines are lost for good."
look_at = "`select ts, lag_bytes, lag_seconds, position_bytes, acknowledged_bytes from ship where source = …`. Read but not acknowledged (position_bytes far ahead of acknowledged_bytes): the hub or the network to it is slow (collector_run of the hub, store.is_full in /api/status). Not read: the agent lacks CPU (cpu_stat, its own limits), or one log exceeds its bandwidth limit."
silent_when = "The oldest byte waited no longer than 30 s in one of the samples of the last half minute, of which there must be three: short peaks and a good initial read of a long log do not count as long as they end. A log without writes has no lag, whatever its age."
fix = "{fix_text} Check: lag_bytes of {source} falls to 0."
source = "field notes A (a forwarder lagged unnoticed); peers: alerts on the age of the oldest unsent line"
[text.held_by]
unreadable = "the file cannot be read: {error}"
hub = "most of it is read and waits for the hub"
agent = "most of it is not read yet"
[text.fix_text]
unreadable = "Make the file readable for the agent."
hub = "Check the hub first: is its disk full or slow, is the network to it saturated? The agent catches up without action."
agent = "Give the agent more CPU or a higher bandwidth limit, or log less: an unused field costs as much as a used one."
[chart]
title = "Bytes waiting"
unit = "B"
sql = """
select ts, lag_bytes from ship
where source = {source} and host = {host} and ts > $now - interval '15 minutes' and ts <= $now order by ts"""
---*/
with looks as (
  select host, source, stream,
    count(*) as looks,
    min(lag_seconds) as least_seconds,
    max(lag_seconds) as lag_seconds,
    max(lag_bytes) as lag_bytes,
    max(position_bytes) - max(acknowledged_bytes) as unacknowledged_bytes,
    max(acknowledged_bytes) - min(acknowledged_bytes) as acknowledged,
    max(size_bytes) - min(size_bytes) as written,
    greatest(extract(epoch from max(ts)) - extract(epoch from min(ts)), 1) as span_seconds,
    max(error) as error
  from ship
  where ts > $now - interval '35 seconds' and ts <= $now
  group by host, source, stream
  having count(*) >= 3 and min(lag_seconds) > 30
),
worst as (
  select *, row_number() over (partition by host, source order by lag_seconds desc, stream) as place,
    case when error is not null then 'unreadable' when unacknowledged_bytes * 2 > lag_bytes then 'hub' else 'agent' end as cause
  from looks
)
select host, source,
  cast(round(lag_seconds) as bigint) as lag_seconds,
  round(lag_bytes / 1048576.0, 1) as lag_mebibytes,
  cast(round(acknowledged / span_seconds / 1024) as bigint) as acknowledged_rate,
  cast(round(written / span_seconds / 1024) as bigint) as written_rate,
  case when acknowledged > written
    then concat('caught up in about ', cast(round(lag_bytes / ((acknowledged - written) / span_seconds)) as bigint), ' s')
    else 'it is not catching up' end as outlook,
  error, cause as held_by, cause as fix_text
from worst
where place = 1
