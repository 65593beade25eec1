"""PyIceberg against weir's catalog: what it finds in the table `log`, as one line of JSON."""

import json
import sys

import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog

url, token, since = sys.argv[1:]
catalog = load_catalog("weir", type="rest", uri=f"{url}/iceberg", token=token)
assert catalog.list_namespaces() == [("weir",)], catalog.list_namespaces()
tables = [name for _, name in catalog.list_tables("weir")]
assert catalog.table_exists("weir.log") and not catalog.table_exists("weir.nothing")
# Every table can be loaded and has the columns that it says, also those without rows.
for name in tables:
    assert catalog.load_table(("weir", name)).schema().find_field("ts").required, name

log = catalog.load_table("weir.log")
rows = log.scan(row_filter="source == 'app'").to_arrow()
later = log.scan(row_filter=f"source == 'app' and ts >= '{since}'")
planned = [len(list(scan.plan_files())) for scan in (log.scan(), later)]
attrs = [dict(pairs or []).get("number") for pairs in rows["attrs"].to_pylist()]
print(json.dumps({
    "rows": rows.num_rows,
    "bodies": len(set(rows["body"].to_pylist())),
    "newest": pc.max(rows["ts"]).as_py().isoformat() if rows.num_rows else None,
    "sum": sum(int(number) for number in attrs if number),
    "later": later.to_arrow().num_rows,
    "files": planned[0],
    "later_files": planned[1],
    "tables": len(tables),
}))
