import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { sql } from "drizzle-orm";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { openLocalStore } from "../../src/operator/database/local.ts";
import { isStore } from "../../src/operator/database/local-store.ts";
import { startProgram } from "../../src/operator/start/program.ts";
import { prepareStore } from "../../src/operator/start/sample-store.ts";
import { isSecret } from "../../src/rules/keys/secret.ts";
import { orderImportParts } from "../../src/schema/orders.ts";
import { failure, runInProcess } from "../operator/in-process.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { copyProject, freePort, Service } from "./service.ts";

const run = promisify(execFile);
const store = new StoreFolder();
/** A folder for other stores. */
const folder = new StoreFolder();
let service: Service;

beforeAll(async () => {
  service = await Service.start(store.path, { args: ["--log"] });
});
afterAll(async () => {
  await service.end("SIGKILL");
  for (const each of [store, folder]) each.remove();
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
    const perMinute = answers.map(({ headers }) => headers.get("X-RateLimit-Limit"));
    expect(perMinute).toEqual(["60", "300", "1000", "5000"]);
  });

  it("prints a curl line that works as pasted and lists extreme int64 values exactly", async () => {
    const [line = ""] = /^ *curl .*$/m.exec(service.stdout) ?? [];
    const { stdout } = await run("sh", ["-c", line]);
    const [head = "", body = ""] = stdout.split("\r\n\r\n");
    expect(head).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(body).toMatch(/^\[\{"id":-9223372036854775808,.*\{"id":9223372036854775807,.*\]$/);
    expect(body).toContain('"quantity":9223372036854775807,');
  });

  it("logs each request with --log, without its key", async () => {
    const { free } = service.demoKeys;
    const { headers } = await service.cancel(free, "1");
    const id = headers.get("X-Request-Id")!;
    const line = await vi.waitUntil(() =>
      service.stdout.split("\n").find((each) => each.includes(`"${id}"`)),
    );
    expect(JSON.parse(line)).toMatchObject({
      event: "request",
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      route: "/v1/store/orders/{orderId}",
      plan: "free",
      status: 404,
      code: "order_not_found",
    });
    expect(service.stdout + service.stderr).not.toContain("wrangler");
    expect(line).not.toContain(free);
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
    const headers = new Map(response.headers);
    for (const [name, value] of Object.entries(expected)) {
      expect(headers.get(name.toLowerCase())).toEqual(value);
    }
    if (status === 200) expect(headers.get("access-control-allow-origin")).toBe("*");
  });
});

describe("npm start refuses", () => {
  const start = (port: number, path: string) =>
    runInProcess(startProgram(), ["--port", String(port), "--persist-to", path]);

  it("a store that is served, even on a port in use", async () => {
    expect(await start(service.port, store.path)).toEqual(
      failure(
        `process ${service.pid} already serves the store ${store.path} on port ${service.port}: ` +
          "end it first, or serve another store on another port (--persist-to DIR --port N)\n",
      ),
    );
  });

  it("a port in use, before it creates databases and keys", async () => {
    const path = join(folder.path, "refused");
    const reason = `port ${service.port} cannot be used (listen EADDRINUSE: address already in use`;
    expect(await start(service.port, path)).toEqual(failure(reason));
    expect(isStore(path)).toBe(false);
  });

  it("a full disk, and makes the store once there is room", async () => {
    const disk = join(folder.path, "disk");
    mkdirSync(disk);
    const mount = (...args: string[]) => spawnSync("mount", ["-t", "tmpfs", ...args, disk]).status;
    // Without the right to mount, a folder of /proc: no file system with less free space is common.
    const isMounted = mount("-o", "size=60k", "tmpfs") === 0;
    onTestFinished(() => void (isMounted && spawnSync("umount", ["--lazy", disk])));
    const path = isMounted ? join(disk, "store") : "/proc/self/task";
    const full = `The disk of ${path} is full: make room, and run the same command again\n`;
    expect(await start(await freePort(), path)).toEqual(failure(full));
    if (!isMounted) return;
    mount("-o", "remount,size=60m", "tmpfs");
    expect(await prepareStore(path, false)).toHaveLength(4);
  });

  // This test and the next one run concurrently, because each of them mostly waits for wrangler.
  it.concurrent("a port that another program takes during the start", async () => {
    const path = join(folder.path, "own");
    await prepareStore(path, true);
    const starting = await Service.launch(path);
    onTestFinished(() => starting.end("SIGKILL"));
    // `npm start` prints this line after it has checked the port.
    await vi.waitUntil(() => starting.stderr.includes("Starting"), { timeout: 50_000 });
    const other = createServer((_, response) => response.end("other"));
    onTestFinished(() => void other.close());
    await once(other.listen(starting.port, "127.0.0.1"), "listening");
    const { address, port } = other.address() as AddressInfo;
    expect([await starting.exited(), starting.stdout]).toEqual([1, ""]);
    expect(starting.stderr).toContain(
      `the service did not start: Address already in use (${address}:${port})`,
    );
  });

  it.concurrent("invalid vars by name; the store has no keys and orders with --empty", async () => {
    const vars = ["BAN_FIRST_SECONDS=soon", "CORS_ORIGINS=nowhere"];
    const root = copyProject(join(folder.path, "project"), ...vars);
    const empty = new StoreFolder();
    const starting = await Service.launch(empty.path, { args: ["--empty"], root });
    onTestFinished(() => starting.end("SIGKILL"));
    expect([await starting.exited(), starting.stdout]).toEqual([1, ""]);
    expect(starting.stderr).toMatch(
      /^Preparing a new store in .*: two databases\. .*\nerror: the service did not start: Invalid vars: .*\n$/,
    );
    expect(starting.stderr).toContain("BAN_FIRST_SECONDS: must be a whole number from 1 to 86400");
    expect(starting.stderr).toContain("CORS_ORIGINS: entry 1 is not an origin");
    expect(await empty.keysJson("list")).toEqual([]);
    expect((await empty.orders(["export"])).stdout).toBe("");
    empty.remove();
  });
});

describe("a store that was served", { timeout: 120_000 }, () => {
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
    const failed = "Housekeeping failed and is tried again in an hour: answered 500.\n";
    await vi.waitUntil(() => winner.stderr.includes(failed), { timeout: 50_000 });
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

    // Ends with status 1, and says why, if the workerd that listens dies.
    const { stdout } = await run("ps", ["-A", "-ww", "-o", "pid=,pgid=,args="]);
    const [, workerd] = [...stdout.matchAll(/^ *(\d+) +(\d+) .*workerd serve.*$/gm)].find(
      ([, , group]) => Number(group) === winner.pid,
    )!;
    process.kill(Number(workerd), "SIGKILL");
    expect(await winner.exited()).toBe(1);
    expect(winner.stderr).toContain("workerd, which runs the service, has ended (SIGKILL).");
    await vi.waitUntil(() => winner.processes().length === 0);
  });

  it("is free once npm, which alone receives a signal, has ended", async () => {
    const starting = await Service.launch(store.path, { npm: true });
    onTestFinished(() => starting.end("SIGKILL"));
    await vi.waitUntil(() => starting.stderr.includes("Starting"), { timeout: 50_000 });
    await starting.end("SIGTERM");
  });
});
