import { DatabaseSync } from "node:sqlite";
import { beforeAll, expect, it, vi } from "vitest";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { deployProgram } from "../../../src/operator/deploy/program.ts";
import * as wrangler from "../../../src/operator/wrangler.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "../../process/worker-server.ts";
import type { Server } from "../../support/server.ts";
import { runInProcess } from "../in-process.ts";
import { useFakeCloudflare } from "./fake-cloudflare.ts";
import { shortenPauses } from "./faults.ts";
import { runFakeWrangler } from "./fake-wrangler.ts";
import { DATABASE_NAMES } from "../../../src/schema/databases.ts";

const WORKER = "store-orders-production";
const HOST = `${WORKER}.example.workers.dev`;
const HTML = { headers: { "Content-Type": "text/html; charset=utf-8" } };

const realFetch = globalThis.fetch;
const systemNow = Date.now;
const cloudflare = useFakeCloudflare("production");
const folder = new ServedStore();
let service: Server;
let keys: DatabaseSync;
let aheadMs = 0;
/** The number of answers to HEAD that seem to come from another version. */
let late = 0;
/** The number of answers to /healthz that say that a part does not respond. */
let unhealthy = 0;
const statuses: number[] = [];

// The account's databases are those of a real service, which answers for the deployed versions.
beforeAll(async () => {
  await folder.ordersJson(["import", "-"], '{"id":1}\n{"id":2,"status":"shipped"}\n');
  await folder.keysJson("list");
  service = await folder.serve(CLOCKED_SERVICE);
  for (const name of DATABASE_NAMES) {
    const sqlite = new DatabaseSync(databaseFile(folder.path, name), { timeout: 5_000 });
    Object.assign(cloudflare.d1.find(`${WORKER}-${name}`), { sqlite });
    if (name === "keys") keys = sqlite;
  }
  vi.spyOn(wrangler, "runWrangler").mockImplementation(runFakeWrangler);
  vi.spyOn(Date, "now").mockImplementation(() => systemNow() + aheadMs);
  const fetchFromAccount = globalThis.fetch;
  globalThis.fetch = async (input, init) => {
    const { hostname, pathname, search } = new URL(input instanceof Request ? input.url : input);
    return hostname === HOST ? answer(pathname + search, init) : fetchFromAccount(input, init);
  };
});

async function answer(path: string, init: RequestInit = {}): Promise<Response> {
  if (path === "/") return new Response("<!doctype html>", HTML);
  if (path === "/healthz" && unhealthy > 0) return new Response("", { status: (unhealthy--, 503) });
  if (path === "/openapi.json") return new Response(openApiDocument());
  const headers = new Headers(init.headers);
  const version = headers.get("X-Version") ?? "";
  headers.delete("X-Version");
  const response = await realFetch(service.url + path, { ...init, headers });
  statuses.push(response.status);
  const isRevoked = keys.prepare("SELECT 1 FROM api_keys WHERE revoked_at > 0").get();
  if (response.status === 304 && isRevoked !== undefined) {
    aheadMs += 31_000;
    await advanceClock(service, 31);
  }
  const isLate = init.method === "HEAD" && late > 0;
  if (isLate) late -= 1;
  const answered = new Response(response.body, response);
  answered.headers.set("X-Version", isLate ? "another" : version);
  return answered;
}

it("a trial begins again while the version is not healthy or another one answers, and is not refused for its bad credentials", async () => {
  const { versions, before } = cloudflare.deployService("production");
  shortenPauses();
  late = 6;
  unhealthy = 3;
  const args = ["--env", "production", "--skip-checks"];
  const { status, stdout, stderr } = await runInProcess(deployProgram(), args);
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
  expect([late, unhealthy]).toEqual([0, 0]);
  expect(versions.current).not.toBe(before);
  // One by each promise about bad credentials, and one by the revoked key of each whole trial.
  expect(statuses.filter((each) => each === 401)).toHaveLength(11 + 2);
  expect(statuses).not.toContain(429);
  expect(stdout).toMatch(/ \d+ promises kept, 0 broken, \d+ not tried\n/);
  expect(keys.prepare("SELECT id FROM api_keys").all()).toEqual([]);
});
