"""Asks DuckDB with its extension for Iceberg: duck.py; a statement a line on stdin, its rows or what went wrong a line
of JSON on stdout."""

import importlib.metadata
import json
import sys

import duckdb

connection = duckdb.connect()
for name in ("avro", "httpfs", "iceberg"):
    [path] = [
        file.locate()
        for file in importlib.metadata.files(f"duckdb-extension-{name}")
        if file.suffix == ".duckdb_extension"
    ]
    connection.execute(f"load '{path}'")
connection.execute("set timezone = 'UTC'")


def ask(sql):
    try:
        return {"rows": connection.execute(sql).fetchall()}
    except Exception as error:
        return {"error": str(error)}


for line in sys.stdin:
    print(json.dumps(ask(line), default=str), flush=True)
