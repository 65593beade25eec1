// A drill's application in Node: pages from Redis (STORE is its port), or without a store.
// The file `busy` beside it has the milliseconds for which each request keeps the event loop busy,
// the file `slow` those for which it waits.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const net = require("node:net");
const path = require("node:path");

const waiting = [];
let redis = null;

function number(name) {
  try {
    return Number(fs.readFileSync(path.join(__dirname, name), "ascii"));
  } catch {
    return 0;
  }
}

// All requests share one connection, as with most clients for Redis.
function ask(done) {
  if (redis === null) {
    redis = net.connect(Number(process.env.STORE), "127.0.0.1");
    redis.on("data", (data) => {
      for (const _ of data.toString().split("\r\n").slice(1)) waiting.shift()?.();
    });
    redis.on("error", () => {});
    redis.on("close", () => {
      redis = null;
    });
  }
  waiting.push(done);
  redis.write("INCR visits\r\n");
}

function answer(response) {
  response.setHeader("Content-Type", "text/plain");
  response.end("hello\n");
}

http
  .createServer((request, response) => {
    const until = Date.now() + number("busy");
    while (Date.now() < until);
    const work = () => (process.env.STORE ? ask(() => answer(response)) : answer(response));
    const slow = number("slow");
    if (slow > 0) setTimeout(work, slow);
    else work();
  })
  .listen(9001, "127.0.0.1");
