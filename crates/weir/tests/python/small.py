"""Sends by Graylog's and statsd's own clients: small.py GELF_UDP_PORT GELF_TCP_PORT STATSD_PORT COUNT."""

import logging
import random
import string
import sys

import graypy
import statsd

udp, tcp, statsd_port, count = (int(arg) for arg in sys.argv[1:])
for name, handler in (
    ("udp", graypy.GELFUDPHandler("127.0.0.1", udp, localname="gelfhost")),
    ("tcp", graypy.GELFTCPHandler("127.0.0.1", tcp, localname="gelfhost")),
):
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    for n in range(count):
        logger.error("%s %d", name, n, extra={"user": "u1"})
    # Too long for one datagram even when packed: sent in chunks.
    random.seed(1)
    logger.error("%s long %s", name, "".join(random.choices(string.ascii_letters, k=20_000)))
    handler.close()

client = statsd.StatsClient("127.0.0.1", statsd_port)
for n in range(count):
    client.incr("hits")
    client.timing("took", n)
client.gauge("load", 0.5)
