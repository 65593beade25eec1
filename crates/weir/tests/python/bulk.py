"""Sends numbered documents by Elasticsearch's own client: bulk.py URL COUNT [ID_PREFIX]; a line on stdout for each request."""

import sys
import time

from elasticsearch import ConnectionError, ConnectionTimeout, Elasticsearch, helpers

url, count, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3]
client = Elasticsearch(url, request_timeout=30, retry_on_timeout=True, max_retries=0)
client.info()
for start in range(0, count, 250):
    documents = [
        {"_index": "numbers", "_id": f"{prefix}-{n}", "message": f"{prefix} {n}", "host": {"name": "pyhost"}}
        for n in range(start, min(start + 250, count))
    ]
    for attempt in range(200):
        try:
            helpers.bulk(client, documents)
            break
        except (ConnectionError, ConnectionTimeout):
            time.sleep(0.1)
    else:
        sys.exit("the hub did not come back")
    print(start, flush=True)
