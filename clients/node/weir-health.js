// Health digest of an application: GET /weir/health and /weir/health/live.
//
//     const { Worker } = require("node:worker_threads");
//     const { Health } = require("./weir-health.js");
//
//     let isAlive = true;
//     const worker = new Worker("setInterval(() => {}, 1000)", { eval: true });
//     worker.on("exit", () => { isAlive = false; });
//
//     const health = new Health("shop", { release: "1.4.2" });
//     health.register("workers", () => {
//       if (!isAlive) throw new Error("no worker is alive");
//     }, { every: 5, scope: "self" });
//     health.register("feed:rate", async () => {
//       return { observedValue: 62, observedUnit: "/s", threshold: 50 };
//     }, { every: 10, scope: "dependency" });
//     health.serve(9201); // or: app.use(health.handler), http.createServer(health.handler)
//
// A check passes when it returns nothing, true or members of its result, or a promise of them; it
// fails when it throws or returns false. Checks run on timers, requests never run one. Code that
// blocks the event loop blocks this server as well, so the digest is missing then.
"use strict";
const http = require("node:http");

const TYPE = "application/health+json";
const MEMBERS = ["status", "observedValue", "observedUnit", "threshold", "output"];
const STATES = ["pass", "warn", "fail"];
const NOT_FOUND = { status: 404, headers: { "Content-Type": "text/plain" }, body: "not found\n" };

/** A value that JSON can hold: numbers that are finite, text of at most 500 characters. */
function plain(value) {
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "number") return Number.isFinite(value) ? value : undefined;
  return Buffer.from(String(value).slice(0, 500)).toString(); // replaces lone surrogates
}

class Check {
  constructor(fn, every, scope, now) {
    Object.assign(this, { fn, every, scope, registered: now, started: null, ended: null, result: null });
  }

  async run() {
    const result = {};
    try {
      const value = await this.fn();
      if (value === false) throw new Error("the check returned false");
      if (typeof value === "object" && value !== null) {
        for (const name of MEMBERS) if (value[name] != null) result[name] = plain(value[name]);
      }
      result.status ??= "pass";
      if (!STATES.includes(result.status)) throw new Error(`unknown status ${result.status}`);
    } catch (error) {
      let text = "an error without text";
      try { text = String(error); } catch { /* an object without a text */ }
      result.status = "fail";
      result.output = plain(text);
    }
    return { ...result, time: new Date().toISOString() };
  }

  /** The result as it counts now, and whether it is a failure of the last run. */
  state(now) {
    const age = now - (this.ended ?? this.registered);
    const isFailed = this.result?.status === "fail";
    if (this.started !== null && now - this.started > this.every) {
      return [{ status: "fail", output: `no result within ${this.every} s` }, true];
    }
    if (age > 3 * this.every) {
      const before = this.result?.output ? `; last: ${this.result.output}` : "";
      const text = `stale: did not run for ${Math.round(age)} s, every ${this.every} s${before}`;
      return [{ ...this.result, status: "fail", output: text }, isFailed];
    }
    return [this.result ?? { status: "warn", output: "no result yet" }, isFailed];
  }
}

class Health {
  constructor(service, { release, clock = () => performance.now() / 1000 } = {}) {
    Object.assign(this, { service, release, clock, checks: new Map() });
    this.handler = this.handler.bind(this);
  }

  register(name, fn, { every, scope }) {
    if (!["self", "dependency"].includes(scope) || !(every > 0) || this.checks.has(name)) {
      throw new Error(`cannot register check \`${name}\`: the scope is self or dependency, every > 0, the name new`);
    }
    const check = new Check(fn, every, scope, this.clock());
    this.checks.set(name, check);
    setImmediate(() => this.loop(check));
  }

  async loop(check) {
    check.started = this.clock();
    check.result = await check.run();
    check.started = null;
    check.ended = this.clock();
    setTimeout(() => this.loop(check), check.every * 1000).unref();
  }

  /** The status code and the digest of the last results. */
  digest() {
    const now = this.clock();
    const checks = {};
    let isFailed = false;
    let isWarned = false;
    for (const [name, check] of this.checks) {
      const [result, counts] = check.state(now);
      isFailed ||= counts && check.scope === "self";
      isWarned ||= result.status !== "pass";
      checks[name] = [{ ...result, scope: check.scope }];
    }
    const status = isFailed ? "fail" : isWarned ? "warn" : "pass";
    return [isFailed ? 503 : 200, { status, serviceId: this.service, releaseId: this.release, checks }];
  }

  /** Status, headers and body; null for other paths. */
  answer(method, url) {
    const path = url.split("?")[0];
    if (!path.endsWith("/weir/health") && !path.endsWith("/weir/health/live")) return null;
    if (method !== "GET" && method !== "HEAD") {
      return { status: 405, headers: { Allow: "GET, HEAD", Connection: "close" }, body: "" };
    }
    const [status, digest] = path.endsWith("/live") ? [200, { status: "pass" }] : this.digest();
    const headers = { "Content-Type": TYPE, "Cache-Control": "no-store" };
    return { status, headers, body: JSON.stringify(digest) };
  }

  /** Answers a request of node:http; with `next`, as middleware, leaves other paths to it. */
  handler(request, response, next) {
    const answer = this.answer(request.method, request.originalUrl ?? request.url);
    if (answer === null && next) return next();
    const { status, headers, body } = answer ?? NOT_FOUND;
    response.writeHead(status, { ...headers, "Content-Length": Buffer.byteLength(body) });
    response.end(request.method === "HEAD" ? undefined : body);
  }

  /** Answers on a port of the loopback; resolves to the port, which is another one for 0. */
  serve(port) {
    const server = http.createServer((request, response) => this.handler(request, response));
    server.keepAliveTimeout = 60_000;
    return new Promise((resolve, reject) => {
      server.once("error", reject);
      server.listen(port, "127.0.0.1", () => resolve(server.address().port)).unref();
    });
  }
}

module.exports = { Health };
