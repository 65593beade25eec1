"""Answers of `/api/sql` as Arrow and Parquet, read by their own libraries: what is in them, as one line of JSON."""

import io
import json
import sys
import urllib.request

import pyarrow
import pyarrow.compute as pc
import pyarrow.parquet

url, sql, files = sys.argv[1], sys.argv[2], sys.argv[3:]


def ask(form, sql):
    body = json.dumps({"sql": sql}).encode()
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(f"{url}/api/sql?format={form}", body, headers)
    with urllib.request.urlopen(request) as answer:
        return answer.headers["content-type"], answer.read()


def read(form, content):
    if form == "arrow":
        return pyarrow.ipc.open_stream(content).read_all()
    return pyarrow.parquet.read_table(io.BytesIO(content))


found = []
for form, file in zip(["arrow", "parquet"], files):
    kind, content = ask(form, sql)
    table = read(form, content)
    with open(file, "rb") as saved:
        assert read(form, saved.read()).equals(table), form
    empty = read(form, ask(form, f"select * from ({sql}) where n < 0")[1])
    assert empty.num_rows == 0 and empty.schema.equals(table.schema), form
    found.append({
        "kind": kind,
        "rows": table.num_rows,
        "sum": pc.sum(table["n"]).as_py(),
        "nulls": table["word"].null_count,
        "last": table.slice(table.num_rows - 1).to_pylist()[0]["ts"].isoformat(),
        "types": [str(field.type) for field in table.schema],
    })
print(json.dumps(found))
