"""Asks Trino: trino.py URL; a statement a line on stdin, its rows or what went wrong a line of JSON on stdout."""

import json
import sys
import urllib.request


def ask(url, sql):
    headers = {"X-Trino-User": "weir", "X-Trino-Time-Zone": "UTC"}
    request = urllib.request.Request(f"{url}/v1/statement", data=sql.encode(), headers=headers)
    rows = []
    while True:
        with urllib.request.urlopen(request) as answer:
            told = json.load(answer)
        if "error" in told:
            return {"error": f"{told['error']['errorName']}: {told['error']['message']}"}
        rows += told.get("data", [])
        if "nextUri" not in told:
            return {"rows": rows}
        request = told["nextUri"]


for line in sys.stdin:
    print(json.dumps(ask(sys.argv[1], line)), flush=True)
