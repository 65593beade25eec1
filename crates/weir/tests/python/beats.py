"""Sends numbered events by a client of the Beats protocol: beats.py PORT COUNT; a line on stdout for each window."""

import sys
import time

from pylogbeat import ConnectionException, PyLogBeatClient

port, count = int(sys.argv[1]), int(sys.argv[2])
client = PyLogBeatClient("127.0.0.1", port, timeout=30)
for start in range(0, count, 100):
    events = [
        {
            "@timestamp": "2026-11-20T12:00:00.000Z",
            "message": f"event {n}",
            "host": {"name": "beathost"},
            "log": {"offset": n, "file": {"path": "/var/log/app.log"}},
        }
        for n in range(start, min(start + 100, count))
    ]
    for attempt in range(300):
        try:
            client.send(events)
            break
        except (OSError, ConnectionException):
            client.close()
            time.sleep(0.1)
    else:
        sys.exit("the hub did not come back")
    print(start, flush=True)
client.close()
