// The scenarios with node-postgres: simple protocol, and prepared statements in text.
// Its binary mode is left out: it has no reader for dates and bytes.
"use strict";

const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const pg = require("pg");
const Cursor = require("pg-cursor");

const [port, plainPort, password, certificate] = process.argv.slice(2);
const scenarios = JSON.parse(fs.readFileSync(path.join(__dirname, "scenarios.json"), "utf8"));
const plain = { host: "localhost", port: Number(port), database: "weir", user: "carl", password, ssl: false };
const oid = { int8: 20, int8Array: 1016, date: 1082 };
pg.types.setTypeParser(oid.int8, Number);
pg.types.setTypeParser(oid.int8Array, (text) => text.slice(1, -1).split(",").map(Number));
pg.types.setTypeParser(oid.date, (text) => text);

function rendered(value) {
  if (value instanceof Date) return value.toISOString();
  if (Buffer.isBuffer(value)) return value.toString("hex");
  return value;
}

async function connected(options = plain) {
  const client = new pg.Client(options);
  client.on("error", () => {});
  await client.connect();
  return client;
}

/** Runs `work` with a new client, which ends with it. */
async function alone(work, options = plain) {
  const client = await connected(options);
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function state(client, query) {
  try {
    await client.query(query);
  } catch (error) {
    return error.code;
  }
  return null;
}

const one = async (client) => (await client.query({ text: "select 1", rowMode: "array" })).rows[0][0];

const encryption = (options) =>
  alone((client) => (client.connection.stream.encrypted ? "encrypted" : "plain"), options);

let number = 0;

function query(scenario, mode) {
  const values = (scenario.parameters ?? []).map((parameter) => Object.values(parameter)[0]);
  const query = { text: scenario.sql, rowMode: "array" };
  if (mode === "text") Object.assign(query, { name: `statement ${++number}`, values });
  return query;
}

const perMode = {
  async rows(client, scenario, mode) {
    const { rows } = await client.query(query(scenario, mode));
    return rows.map((row) => row.map(rendered));
  },
  async sum(client, scenario, mode) {
    const { rows } = await client.query(query(scenario, mode));
    return [rows.length, rows.reduce((sum, row) => sum + row[0], 0)];
  },
};

const once = {
  connect: () => encryption(plain),
  connect_tls: () => encryption({ ...plain, ssl: { ca: fs.readFileSync(certificate, "utf8") } }),
  async tls_refused() {
    try {
      return await encryption({ ...plain, port: Number(plainPort), ssl: { rejectUnauthorized: false } });
    } catch (error) {
      return error.message.includes("does not support SSL") ? "refused" : error.message;
    }
  },
  async wrong_password() {
    try {
      return await encryption({ ...plain, password: "sesam" });
    } catch (error) {
      return error.code;
    }
  },
  empty: () =>
    alone(async (client) => {
      for (const text of ["", ";", " -- nothing"]) {
        await client.query(text);
        await client.query({ text, values: [], queryMode: "extended" });
      }
      return (await one(client)) === 1 ? "usable" : "broken";
    }),
  statements: (scenario) =>
    alone(async (client) => {
      const results = await client.query({ text: scenario.sql, rowMode: "array" });
      return results.map((result) => result.rows[0][0]);
    }),
  /** Reads to the end in parts of 1,000 rows, and leaves a second portal after its first part. */
  suspend: (scenario) =>
    alone(async (client) => {
      const cursor = client.query(new Cursor(scenario.sql, [], { rowMode: "array" }));
      let [count, sum] = [0, 0];
      for (let rows = await cursor.read(1000); rows.length > 0; rows = await cursor.read(1000)) {
        count += rows.length;
        sum += rows.reduce((sum, row) => sum + row[0], 0);
      }
      await cursor.close();
      const left = client.query(new Cursor(scenario.sql));
      await left.read(10);
      await left.close();
      return [count, sum, await one(client)];
    }),
  cancel: (scenario) =>
    alone(async (client) => {
      const request = Buffer.alloc(16);
      [16, 80877102, client.processID, client.secretKey].forEach((value, at) => request.writeInt32BE(value, at * 4));
      setTimeout(() => net.connect(plain.port, plain.host).end(request), 300);
      return [await state(client, scenario.sql), await one(client)];
    }),
  recover: (scenario) =>
    alone(async (client) => [
      await state(client, scenario.sql),
      await one(client),
      await state(client, { text: scenario.sql, queryMode: "extended" }),
      (await client.query("select $1::int as one", [1])).rows[0].one,
    ]),
  transaction: (scenario) =>
    alone(async (client) => {
      await client.query("begin");
      const found = [await one(client), await state(client, scenario.sql), await state(client, "select 1")];
      await client.query("rollback");
      found.push(await one(client));
      return found;
    }),
};

async function report(scenario, mode, run) {
  const line = { scenario: scenario.name, mode };
  try {
    line.result = await run();
  } catch (error) {
    line.error = String(error);
  }
  console.log(JSON.stringify(line));
}

(async () => {
  const shared = await connected();
  for (const scenario of scenarios) {
    const does = scenario.does ?? "rows";
    if (does in perMode) {
      for (const mode of scenario.parameters ? ["text"] : ["simple", "text"]) {
        await report(scenario, mode, () => perMode[does](shared, scenario, mode));
      }
    } else if (does in once) {
      await report(scenario, "once", () => once[does](scenario));
    }
  }
  await shared.end();
})();
