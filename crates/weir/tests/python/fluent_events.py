"""Sends numbered events by Fluentd's own logger: fluent_events.py PORT COUNT.

In the middle it says so on stdout and waits for a line on stdin.
"""

import sys
import time

from fluent import sender

port, count = int(sys.argv[1]), int(sys.argv[2])
logger = sender.FluentSender("app", host="127.0.0.1", port=port, nanosecond_precision=True, timeout=10)


def send(numbers):
    for n in numbers:
        logger.emit("web", {"message": f"event {n}", "host": "fluenthost", "level": "warn"})
    for _ in range(300):
        if logger.pendings is None:
            return
        time.sleep(0.1)
        logger.emit("web", {"message": "again", "host": "otherhost"})
    sys.exit("not sent")


send(range(count // 2))
print("half", flush=True)
sys.stdin.readline()
send(range(count // 2, count))
logger.close()
