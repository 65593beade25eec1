// Program of the conformance test: `conform.js DIRECTORY`; files in the directory are its faults.
const fs = require("node:fs");
const http = require("node:http");
const path = require("node:path");
const { Health } = require("./weir-health.js");

const runs = { count: 0, tick: 0 };

function fault(name) {
  try {
    return fs.readFileSync(path.join(process.argv[2], name), "utf8");
  } catch {
    return null;
  }
}

function thrower(name) {
  return () => {
    const text = fault(name);
    if (text !== null) throw new Error(text);
  };
}

function counter(name) {
  return async () => ({ observedValue: ++runs[name], observedUnit: "runs", threshold: 1 });
}

async function hang() {
  while (fault("hang") !== null) await new Promise((resolve) => setTimeout(resolve, 20));
}

function odd() {
  switch (fault("odd")) {
    case "false": return false;
    case "warn": return { status: "warn", output: "slow" };
    case "status": return { status: "fine" };
    case "nan": return { observedValue: NaN, threshold: Infinity, output: "no rate" };
    case "text": throw new Error(`cannot read "a\\b"\n\t\ud800\0${"x".repeat(9000)}`);
    case "exit": return Promise.reject();
  }
}

const clock = () => performance.now() / 1000 + (fault("later") !== null ? 1000 : 0);
const health = new Health("shop", { release: "1.4.2", clock });
health.register("self", thrower("self"), { every: 0.2, scope: "self" });
health.register("dependency", thrower("dependency"), { every: 0.2, scope: "dependency" });
health.register("hang", hang, { every: 0.2, scope: "dependency" });
health.register("odd", odd, { every: 0.2, scope: "dependency" });
health.register("count", counter("count"), { every: 30, scope: "self" });
health.register("tick", counter("tick"), { every: 0.2, scope: "self" });
for (const [name, every, scope] of [["count", 1, "self"], ["a", 0, "self"], ["a", 1, "own"]]) {
  let isRefused = false;
  try {
    health.register(name, hang, { every, scope });
  } catch {
    isRefused = true;
  }
  if (!isRefused) throw new Error(`${name} was accepted`);
}
const mounted = http.createServer((request, response) => {
  health.handler(request, response, () => response.end("application"));
});
mounted.listen(0, "127.0.0.1", async () => {
  console.log(`${await health.serve(0)} ${mounted.address().port}`);
});
process.stdin.on("end", () => process.exit()).resume();
