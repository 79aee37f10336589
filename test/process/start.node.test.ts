import { execFile } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { orderImportParts } from "../../src/schema/orders.ts";
import { startProgram } from "../../src/operator/start/program.ts";
import { isSecret } from "../../src/rules/keys/secret.ts";
import { runInProcess } from "../operator/in-process.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { Service } from "./service.ts";

const TIME = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

const store = new StoreFolder();
let service: Service;

beforeAll(async () => {
  service = await Service.start(store.path, { args: ["--log"] });
});
afterAll(async () => {
  await service.end("SIGKILL");
  store.remove();
});

describe("npm start on a new store", () => {
  it("prints the URL of the service and one working demo key per plan", async () => {
    expect(service.stderr).toContain(
      `Preparing a new store in ${store.path}: two databases, sample orders and demo keys.`,
    );
    expect(service.stdout).toContain(
      `Serving on http://localhost:${service.port} (only on 127.0.0.1)`,
    );
    const { demoKeys } = service;
    expect(Object.keys(demoKeys)).toEqual(["free", "pro", "business", "enterprise"]);
    expect(Object.values(demoKeys).every(isSecret)).toBe(true);
    const changes = await store.keysJson("audit");
    expect(changes.map(({ action, details }: any) => `${action} ${details.name.to}`)).toEqual(
      Object.keys(demoKeys)
        .toReversed()
        .map((plan) => `create Demo ${plan}`),
    );
    const answers = await Promise.all(Object.values(demoKeys).map((key) => service.list(key)));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    const perMinute = answers.map(({ headers }) => headers.get("X-RateLimit-Limit"));
    expect(perMinute).toEqual(["60", "300", "1000", "5000"]);
  });

  it("prints a curl line that works as pasted and lists extreme int64 values exactly", async () => {
    const [line = ""] = /^ *curl .*$/m.exec(service.stdout) ?? [];
    const { stdout } = await promisify(execFile)("sh", ["-c", line]);
    const [head = "", body = ""] = stdout.split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(JSON.parse(body)).toHaveLength(10);
    const ids = [...body.matchAll(/"id":(-?\d+)/g)].map(([, id]) => id);
    expect(ids[0]).toBe("-9223372036854775808");
    expect(ids.at(-1)).toBe("9223372036854775807");
    expect(body).toContain('"quantity":9223372036854775807,');
  });

  it("logs each request with --log", async () => {
    const { free } = service.demoKeys;
    const answers = [await service.list(free), await service.cancel(free, "1")];
    const ids = answers.map(({ headers }) => headers.get("X-Request-Id"));
    const lines = await vi.waitUntil(() => {
      const found = service.stdout
        .split("\n")
        .filter((line) => ids.some((id) => line.includes(`"${id}"`)));
      return found.length === 2 && found.map((line) => JSON.parse(line) as object);
    });
    expect(lines).toMatchObject([
      { event: "request", time: TIME, requestId: ids[0], route: "/v1/store/orders", status: 200 },
      { event: "request", requestId: ids[1], plan: "free", status: 404, code: "order_not_found" },
    ]);
    expect(service.stdout + service.stderr).not.toContain("wrangler");
    expect(JSON.stringify(lines)).not.toContain(free);
  });
});

describe("the static files", () => {
  const CATALOG = 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"';
  const LINK = '</.well-known/api-catalog>; rel="api-catalog"';
  const get = (path: string) =>
    fetch(`http://127.0.0.1:${service.port}${path}`, { redirect: "manual" });

  it.each(["/", "/docs", "/docs/", "/index", "/index.html", "/nothing"])(
    "at %s are answered without repeating the query",
    async (path) => {
      const answer = await get(`${path}?key=SECRET`);
      expect(answer.status).toBe(/index$|nothing/.test(path) ? 404 : 200);
      expect(answer.headers.get("Location")).toBeNull();
      expect(await answer.text()).not.toContain("SECRET");
    },
  );

  it.each([
    ["/openapi.json", 200, { "Content-Type": "application/json" }],
    ["/llms.txt", 200, { "Content-Type": "text/plain; charset=utf-8" }],
    ["/.well-known/api-catalog", 200, { "Content-Type": CATALOG, Link: LINK }],
    // Of the Worker.
    ["/reference", 404, { Link: expect.stringContaining('</>; rel="service-doc"') }],
  ])("answer %s with their headers, for any origin", async (path, status, expected) => {
    const response = await get(path);
    expect(response.status).toBe(status);
    for (const [name, value] of Object.entries(expected)) {
      expect(response.headers.get(name)).toEqual(value);
    }
    if (status === 200) expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
  });
});

describe("a store that is served", { timeout: 120_000 }, () => {
  it("cannot be used by a second service, whose port is taken too", async () => {
    const args = ["--port", String(service.port), "--persist-to", store.path];
    expect(await runInProcess(startProgram(), args)).toEqual({
      status: 1,
      stdout: "",
      stderr:
        `error: process ${service.pid} already serves the store ${store.path} on port ${service.port}: ` +
        "end it first, or serve another store on another port (--persist-to DIR --port N)\n",
    });
  });

  it("is served again after a kill, with its data, by one of two services that start at once", async () => {
    const { pro, enterprise } = service.demoKeys;
    expect((await service.cancel(pro, "9223372036854775807")).status).toBe(204);
    expect((await service.cancel(pro, "1004")).status).toBe(409);
    const before = await (await service.list(pro)).text();
    const keys = await store.keysJson("list");
    expect(keys).toHaveLength(4);
    {
      await using databases = await openLocalStore(store.path);
      // Housekeeping fails to delete old usage, and deletes the old part of an import.
      await databases.keys.orm.run(sql`ALTER TABLE key_usage RENAME TO lost_usage`);
      const part = { importId: "left", part: 0, createdAt: new Date(0), lines: "[]" };
      await databases.orders.orm.insert(orderImportParts).values(part);
    }
    process.kill(service.pid, "SIGKILL");
    await service.exited();
    // Records a live process id, as if another program had received the killed service's id.
    const holder = { pid: process.pid, port: service.port };
    writeFileSync(join(store.path, "service.json"), JSON.stringify(holder));
    // Starts two services at once, while processes of the killed service may still run.
    const launch = () => Service.launch(store.path, { args: ["--empty"], npm: true });
    const both = await Promise.all([launch(), launch()]);
    for (const candidate of both) onTestFinished(() => candidate.end("SIGKILL"));

    expect(await Promise.race(both.map((candidate) => candidate.exited()))).toBe(1);
    const loser = both.find(({ hasExited }) => hasExited)!;
    const winner = both.find((candidate) => candidate !== loser)!;
    expect(loser.stderr).toMatch(
      new RegExp(`process \\d+ already serves .* on port ${winner.port}: end it first`),
    );
    expect(loser.stderr).not.toContain(`process ${process.pid} `);

    // `npm start` itself triggers housekeeping, because `wrangler dev` never runs cron triggers.
    const failure = "Housekeeping failed and is tried again in an hour: answered 500.\n";
    await vi.waitUntil(() => winner.stderr.includes(failure), { timeout: 50_000 });
    expect(winner.stderr).toContain('{"event":"housekeeping","importParts":1,');
    expect(service.processes()).toEqual([]);
    expect(winner.stderr).toContain("Starting the service");
    expect(winner.stdout).not.toContain("sord_");
    expect(winner.stdout).toContain(
      `npm run keys -- create --plan free --name "My client" --persist-to ${store.path}`,
    );
    expect(await (await winner.list(enterprise)).text()).toBe(before);
    expect(JSON.parse(before)).toHaveLength(9);
    expect(await store.keysJson("list")).toEqual(keys);
    // Sends the signal only to npm; the service must end too.
    await winner.end("SIGTERM");
  });

  it("ends with status 1, and says why, if the workerd that listens dies", async () => {
    const other = new StoreFolder();
    onTestFinished(() => other.remove());
    const dying = await Service.start(other.path);
    onTestFinished(() => dying.end("SIGKILL"));
    const { stdout } = await promisify(execFile)("ps", ["-A", "-ww", "-o", "pid=,ppid=,args="]);
    const workerds = [...stdout.matchAll(/^ *(\d+) +(\d+) .*workerd serve.*$/gm)];
    const [, first] = workerds.find(([, , parent]) => Number(parent) === dying.pid) ?? [];
    process.kill(Number(first), "SIGKILL");
    expect(await dying.exited()).toBe(1);
    expect(dying.stderr).toContain("workerd, which runs the service, has ended (SIGKILL).");
    await vi.waitUntil(() => dying.processes().length === 0);
  });
});
