"""Asks the MongoDB at 127.0.0.1 and prints how often it asked what, as its driver counts; `ping` asks that only."""

import collections
import json
import sys

from pymongo import MongoClient, monitoring
from pymongo.errors import OperationFailure


class Count(monitoring.CommandListener):
    def __init__(self):
        self.sent = collections.Counter()

    def started(self, event):
        self.sent[event.command_name] += 1

    def succeeded(self, event):
        pass

    def failed(self, event):
        pass


count = Count()
client = MongoClient("127.0.0.1", 27017, event_listeners=[count], maxPoolSize=4)
if sys.argv[1:] == ["ping"]:
    client.admin.command("ping")
    sys.exit()
shop = client.shop
for number in range(40):
    shop.order.insert_one({"number": number, "text": "x" * (number * 200)})
shop.order.insert_many([{"number": number} for number in range(500)])
assert len(list(shop.order.find({}, batch_size=100))) == 540
for number in range(20):
    shop.order.update_one({"number": number}, {"$set": {"text": "y"}})
assert shop.order.count_documents({"text": "y"}) == 20
shop.order.delete_many({})
try:
    client.admin.command("nosuchcommand")
except OperationFailure:
    pass
client.close()
print(json.dumps(count.sent))
