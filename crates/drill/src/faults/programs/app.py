"""A drill's application behind gunicorn: pages from PostgreSQL or from an API over HTTP.

STORE is `postgresql:PORT`, `api:HOST:PORT`, or empty for pages without a store. The file `slow`
beside it has the milliseconds that each request sleeps.
"""

import http.client
import os
import time

STORE, _, ADDRESS = os.environ.get("STORE", "").partition(":")
SLOW = os.path.join(os.path.dirname(__file__), "slow")
connection = None


def number(path):
    """The number in a file, 0 without one."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read() or 0)
    except FileNotFoundError:
        return 0


def query(sql):
    """The first row; each worker keeps its connection."""
    global connection
    import psycopg2

    if connection is None or connection.closed:
        connection = psycopg2.connect(
            host="127.0.0.1", port=ADDRESS, user="postgres", dbname="postgres"
        )
        connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()


def page(path):
    """The text of a page."""
    if STORE == "postgresql" and path.startswith("/report"):
        return str(query("select pg_sleep(6)"))
    if STORE == "postgresql":
        return str(query("select count(*) from stock"))
    if STORE == "api":
        api = http.client.HTTPConnection(ADDRESS)
        api.request("GET", "/price")
        return api.getresponse().read().decode()
    return "hello"


def application(environ, start_response):
    """WSGI's entry."""
    millis = number(SLOW)
    if millis:
        time.sleep(millis / 1000)
    body = page(environ["PATH_INFO"]).encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]
