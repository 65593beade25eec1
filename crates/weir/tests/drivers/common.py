"""Shared by both Python drivers: the scenarios, the rendering of values, and the report of results."""

import datetime
import decimal
import json
import pathlib
import sys
import threading
import time

PORT, PLAIN_PORT, PASSWORD, CERTIFICATE = sys.argv[1:5]
SCENARIOS = json.loads((pathlib.Path(__file__).parent / "scenarios.json").read_text())
LOGIN = f"host=127.0.0.1 dbname=weir user=carl password={PASSWORD}"
PLAIN = f"{LOGIN} port={PORT} sslmode=disable"
TLS = f"{LOGIN.replace('host=', 'host=localhost hostaddr=')} port={PORT} sslmode=verify-full sslrootcert={CERTIFICATE}"
TLS_REFUSED = f"{LOGIN} port={PLAIN_PORT} sslmode=require"
WRONG_PASSWORD = f"{PLAIN} password=sesam"


def rendered(value):
    """A value as the scenarios write it."""
    if isinstance(value, datetime.datetime):
        return value.astimezone(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, (bytes, memoryview)):
        return bytes(value).hex()
    if isinstance(value, list):
        return [rendered(item) for item in value]
    return value


def parameters(scenario):
    """The scenario's parameters as values of Python."""
    values = []
    for parameter in scenario.get("parameters", []):
        (kind, value), = parameter.items()
        values.append(datetime.datetime.fromisoformat(value) if kind == "timestamptz" and value else value)
    return values


def placeholders(sql, mark="%s"):
    """`$1`, `$2`, … in the driver's own form."""
    sql = sql.replace("%", "%%")
    for number in range(1, 10):
        sql = sql.replace(f"${number}", mark)
    return sql


def canceled(cancel, run):
    """What `run` returns while `cancel` is called from another thread."""
    def later():
        time.sleep(0.3)
        cancel()
    thread = threading.Thread(target=later)
    thread.start()
    found = run()
    thread.join()
    return found


def report(scenario, mode, run):
    """Prints a line: what the scenario returned, or its error."""
    line = {"scenario": scenario["name"], "mode": mode}
    try:
        line["result"] = run()
    except Exception as error:  # whatever it is, the test shows it
        line["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(line), flush=True)
