"""Health digest of an application: GET /weir/health and /weir/health/live.

    import threading
    from weir_health import Health

    def workers():
        if threading.active_count() < 2:
            raise RuntimeError("no worker is alive")
    def feed_rate():
        return {"observedValue": 62, "observedUnit": "/s", "threshold": 50}

    health = Health("shop", release="1.4.2")
    health.register("workers", workers, every=5, scope="self")
    health.register("feed:rate", feed_rate, every=10, scope="dependency")
    health.serve(9201)  # or: application = health.wsgi(application), app = health.asgi(app)

A check passes when it returns nothing, True or members of its result; it fails when it raises or
returns False. Each check runs on a thread of its own, also after a fork; requests never run one.
"""
import http.server
import json
import math
import os
import threading
import time

NOT_FOUND = (404, [("Content-Length", "0")], b"")
MEMBERS = ("status", "observedValue", "observedUnit", "threshold", "output")

def plain(value):
    """A value that JSON can hold: finite numbers, text of at most 500 characters."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if math.isfinite(value) else None
    return str(value)[:500].encode("utf-8", "replace").decode()

class Check:
    def __init__(self, fn, every, scope):
        self.fn, self.every, self.scope = fn, every, scope
    def run(self):
        result = {}
        try:
            value = self.fn()
            if value is False:
                raise ValueError("the check returned False")
            if isinstance(value, dict):
                result = {name: plain(value[name]) for name in MEMBERS if value.get(name) is not None}
            if result.setdefault("status", "pass") not in ("pass", "warn", "fail"):
                raise ValueError(f"unknown status {result['status']}")
        except BaseException as error:  # a check that exits must not end its loop
            result.update(status="fail", output=plain(f"{type(error).__name__}: {error}"))
        return {**result, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}

    def state(self, now):  # the result as it counts now, and whether the last run failed
        every, age, output = self.every, now - self.ended, self.result.get("output", "nothing")
        if self.started is not None and now - self.started > every:
            return {"status": "fail", "output": f"no result within {every:g} s"}, True
        if age > 3 * every:
            text = f"stale: did not run for {age:.0f} s, every {every:g} s; last: {output}"
            return {**self.result, "status": "fail", "output": text}, self.result["status"] == "fail"
        return self.result, self.result["status"] == "fail"

class Health:
    def __init__(self, service, release=None, clock=time.monotonic):
        self.head = {"serviceId": service, **({"releaseId": release} if release else {})}
        self.clock, self.checks = clock, {}
        self.forget()
        os.register_at_fork(after_in_child=self.forget)

    def register(self, name, fn, every, scope):
        if scope not in ("self", "dependency") or not every > 0 or name in self.checks:
            raise ValueError(f"cannot register check `{name}`: the scope is self or dependency, every > 0, the name new")
        self.checks[name] = self.start(Check(fn, every, scope))

    def forget(self):
        self.lock, self.is_forked = threading.Lock(), bool(self.checks)  # a fork has no threads

    def start(self, check):
        check.started, check.ended, check.result = None, self.clock(), {"status": "warn", "output": "no result yet"}
        threading.Thread(target=self.loop, args=(check,), name="weir-health", daemon=True).start()
        return check

    def loop(self, check):
        while True:
            check.started = self.clock()
            result = check.run()
            with self.lock:  # a request reads all three or none
                check.result, check.started, check.ended = result, None, self.clock()
            time.sleep(check.every)

    def digest(self):  # the status code and the last results
        now, checks, is_failed, is_warned = self.clock(), {}, False, False
        with self.lock:
            for check in self.checks.values() if self.is_forked else ():
                self.start(check)
            self.is_forked = False
            states = [(name, check, *check.state(now)) for name, check in self.checks.items()]
        for name, check, result, counts in states:
            is_failed, is_warned = is_failed or (counts and check.scope == "self"), is_warned or result["status"] != "pass"
            checks[name] = [{**{key: value for key, value in result.items() if value is not None}, "scope": check.scope}]
        status, code = ("fail", 503) if is_failed else ("warn" if is_warned else "pass", 200)
        return code, {"status": status, **self.head, "checks": checks}

    def answer(self, method, path):
        """Status, headers and body; None for other paths."""
        path = path.split("?")[0]
        if not path.endswith(("/weir/health", "/weir/health/live")):
            return None
        if method not in ("GET", "HEAD"):
            return 405, [("Allow", "GET, HEAD"), ("Content-Length", "0")], b""
        status, digest = (200, {"status": "pass"}) if path.endswith("/live") else self.digest()
        body = json.dumps(digest).encode()
        headers = [("Content-Type", "application/health+json"), ("Cache-Control", "no-store"), ("Content-Length", str(len(body)))]
        return status, headers, b"" if method == "HEAD" else body

    def wsgi(self, app=None):
        def application(environ, start_response):
            answer = self.answer(environ["REQUEST_METHOD"], environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""))
            if answer is None and app is not None:
                return app(environ, start_response)
            status, headers, body = answer or NOT_FOUND
            start_response(f"{status} {http.HTTPStatus(status).phrase}", headers)
            return [body]
        return application

    def asgi(self, app=None):
        async def application(scope, receive, send):
            answer = self.answer(scope["method"], scope["path"]) if scope["type"] == "http" else None
            if answer is None and app is not None:
                return await app(scope, receive, send)
            status, headers, body = answer or NOT_FOUND
            encoded = [(name.lower().encode(), value.encode()) for name, value in headers]
            await send({"type": "http.response.start", "status": status, "headers": encoded})
            await send({"type": "http.response.body", "body": body})
        return application

    def serve(self, port):
        """Answers on a port of the loopback; returns the port, which is another one for 0."""
        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version, wbufsize, timeout, log_message = "HTTP/1.1", -1, 60, lambda *_: None
            def do_GET(handler):
                status, headers, body = self.answer(handler.command, handler.path) or NOT_FOUND
                handler.send_response(status)
                for name, value in headers + ([("Connection", "close")] if status == 405 else []):  # a body may follow
                    handler.send_header(name, value)
                handler.end_headers()
                handler.wfile.write(b"" if handler.command == "HEAD" else body)
            do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_GET
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        threading.Thread(target=server.serve_forever, name="weir-health", daemon=True).start()
        return server.server_address[1]
