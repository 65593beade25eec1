"""Program of the conformance test: `conform.py DIRECTORY [fork]`; files in the directory are its faults."""
import asyncio
import math
import os
import pathlib
import sys
import threading
import time
import wsgiref.simple_server

from weir_health import Health

faults = pathlib.Path(sys.argv[1])
runs = {"count": 0, "tick": 0}


def fault(name):
    try:
        return (faults / name).read_text()
    except FileNotFoundError:
        return None


def throw(name):
    def check():
        text = fault(name)
        if text is not None:
            raise RuntimeError(text)
    return check


def hang():
    while fault("hang") is not None:
        time.sleep(0.02)


def odd():
    kind = fault("odd")
    if kind == "false":
        return False
    if kind == "warn":
        return {"status": "warn", "output": "slow"}
    if kind == "status":
        return {"status": "fine"}
    if kind == "nan":
        return {"observedValue": math.nan, "threshold": math.inf, "output": "no rate"}
    if kind == "text":
        raise RuntimeError('cannot read "a\\b"\n\t' + b"\xff".decode(errors="surrogateescape") + "\0" + "x" * 9000)
    if kind == "exit":
        sys.exit("gone")


def count(name):
    def check():
        runs[name] += 1
        return {"observedValue": runs[name], "observedUnit": "runs", "threshold": 1}
    return check


def clock():
    return time.monotonic() + (1000 if fault("later") is not None else 0)


def application(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [b"application"]


async def call_asgi(app, environ, sent):
    async def send(message):
        sent.append(message)
    await app({"type": "http", "method": environ["REQUEST_METHOD"], "path": environ["PATH_INFO"]}, None, send)


async def asgi_application(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"application"})


def over_asgi(environ, start_response):
    """An ASGI application below a WSGI server, since the standard library has no other."""
    sent = []
    asyncio.run(call_asgi(health.asgi(asgi_application), environ, sent))
    headers = [(name.decode(), value.decode()) for name, value in sent[0]["headers"]]
    start_response(f"{sent[0]['status']} -", headers)
    return [sent[1]["body"]]


class Silent(wsgiref.simple_server.WSGIRequestHandler):
    def log_message(self, *_):
        pass


def mount(app):
    server = wsgiref.simple_server.make_server("127.0.0.1", 0, app, handler_class=Silent)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


health = Health("shop", release="1.4.2", clock=clock)
health.register("self", throw("self"), every=0.2, scope="self")
health.register("dependency", throw("dependency"), every=0.2, scope="dependency")
health.register("hang", hang, every=0.2, scope="dependency")
health.register("odd", odd, every=0.2, scope="dependency")
health.register("count", count("count"), every=30, scope="self")
health.register("tick", count("tick"), every=0.2, scope="self")
for wrong in [("count", 1, "self"), ("a", 0, "self"), ("a", 1, "own")]:
    try:
        health.register(wrong[0], hang, every=wrong[1], scope=wrong[2])
        sys.exit(f"{wrong} was accepted")
    except ValueError:
        pass
if sys.argv[2:] == ["fork"]:
    while runs["count"] < 1:
        time.sleep(0.01)
    if os.fork():
        os.wait()
        sys.exit()
print(health.serve(0), mount(health.wsgi(application)), mount(over_asgi), flush=True)
sys.stdin.read()
