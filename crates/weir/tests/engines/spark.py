"""Asks Spark: spark.py SETTINGS, a file with a `key=value` a line; a statement a line on stdin, its rows or what went
wrong a line of JSON on stdout."""

import json
import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder
with open(sys.argv[1]) as settings:
    for line in settings:
        builder = builder.config(*line.strip().split("=", 1))
session = builder.getOrCreate()


def ask(sql):
    try:
        return {"rows": [list(row) for row in session.sql(sql).collect()]}
    except Exception as error:
        return {"error": str(error)}


for line in sys.stdin:
    print(json.dumps(ask(line), default=str), flush=True)
