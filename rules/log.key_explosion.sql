/*---
id = "log.key_explosion"
title = "Field-name explosion in a log"
tier = "log"
class = "mail"
for = "0s"
every = "5s"
clear = "5m"
key = ["path"]
needs = ["log"]
when = """
select 1 as n from log where source = 'weir:parse' and ts > $now - interval '3 minutes' and ts <= $now limit 1"""
subject = "{path}"
summary = "{path}: {over_count} values in 3 minutes used field names beyond the first {limit_text}, such as {examples}; they are kept in `weir.more`"
why = "The field names come from outside: a query string or free text is parsed as key=value, or a program writes identifiers as keys. In stores with a column or index entry per name this has taken whole clusters down. weir keeps the first names as attributes and all others together, so nothing is lost, but they cannot be searched by name."
look_at = "`select attrs['weir.more'] from log where source = '…' and attrs['weir.more'] is not null limit 10` (or from request) shows the names and their values."
silent_when = "The names of a log stay within `parsers.distinct_keys` (1,000 unless set). The budget is an opinion: few logs have more real field names. Names excluded by a pipeline's `keys` do not count."
fix = "Write a pipeline for {path} that names the wanted fields: `[parse] format = \"key_value\"` with `keys = [\"…\"]`, or for JSON a step that drops the part with identifiers as keys (docs/parsers.md). If the program is yours, log identifiers as values. Check: weir writes no more rows with source = 'weir:parse' for this path. Do not raise `parsers.distinct_keys` before you know where the names come from."
source = "field notes A (key=value parsing made 100,000s of names, the masters died of memory, the cure was an allow-list)"
---*/
select host, attrs['path'] as path,
  sum(cast(attrs['over_count'] as bigint)) as over_count,
  max(attrs['limit']) as limit_text,
  max(attrs['examples']) as examples
from log
where source = 'weir:parse' and ts > $now - interval '3 minutes' and ts <= $now
group by host, attrs['path']
