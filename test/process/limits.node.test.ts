import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { StoreFolder } from "../operator/store-folder.ts";
import { Service } from "./service.ts";

// The tests run side by side, as most of their time is waiting for the real clock.

/** How soon a change made by a command has to be in effect (contract, section 3). */
const EFFECTIVE_MS = 30_000;
/** The grace of ten seconds, the strikes, and a slow machine. */
const BANNED_MS = 50_000;
const POLL_MS = 1_000;

interface NewKey {
  readonly id: string;
  readonly key: string;
}

const store = new StoreFolder();
let service: Service;
let upgraded: NewKey, banned: NewKey, revoked: NewKey, quiet: NewKey;

beforeAll(async () => {
  service = await Service.start(store.path);
  const create = (name: string): Promise<NewKey> =>
    store.keysJson("create", "--plan", "free", "--name", name);
  [upgraded, banned, revoked, quiet] = await Promise.all([
    create("Upgraded"),
    create("Banned"),
    create("Revoked"),
    create("Quiet"),
  ]);
}, 120_000);
afterAll(async () => {
  await service.end("SIGKILL");
  store.remove();
});

/** Asks once a second until an answer is as wanted, at most until the change must be in effect. */
async function untilEffective(
  key: string,
  isWanted: (response: Response) => boolean,
): Promise<Response> {
  const deadline = performance.now() + EFFECTIVE_MS;
  for (;;) {
    const response = await service.list(key);
    await response.arrayBuffer();
    if (isWanted(response) || performance.now() > deadline) return response;
    await delay(POLL_MS);
  }
}

/** Sends one request after the other until the key is banned. */
async function hammerUntilBanned(key: string): Promise<void> {
  const deadline = performance.now() + BANNED_MS;
  while (performance.now() < deadline) {
    const response = await service.list(key);
    if ((await response.text()).includes("api_key_banned")) return;
  }
  throw new Error("not banned");
}

describe.concurrent("the running service", { timeout: 180_000 }, () => {
  it("admits exactly 60 of 200 simultaneous requests, and one that waits for Retry-After", async () => {
    const { free } = service.demoKeys;
    const answers = await Promise.all(Array.from({ length: 200 }, () => service.list(free)));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(60);
    expect(statuses.filter((status) => status === 429)).toHaveLength(140);
    const refused = answers.filter(({ status }) => status === 429);
    const seconds = refused.map(({ headers }) => Number(headers.get("Retry-After")));
    expect(Math.min(...seconds)).toBeGreaterThan(0);
    expect(Math.max(...seconds)).toBeLessThanOrEqual(60);
    await delay(Math.max(...seconds) * 1_000);
    expect((await service.list(free)).status).toBe(200);
  });

  it("accepts a new key at once", async () => {
    const { key } = await store.keysJson("create", "--plan", "pro", "--name", "New");
    const response = await service.list(key);
    expect(response.status).toBe(200);
    expect(response.headers.get("X-RateLimit-Remaining")).toBe("299");
  });

  it("takes a new plan's limits within 30 seconds, and keeps the count", async () => {
    for (let requests = 0; requests < 20; requests += 1) await service.list(upgraded.key);
    await store.keysJson("update", upgraded.id, "--plan", "pro");
    const limitOf = ({ headers }: Response) => headers.get("X-RateLimit-Limit");
    const response = await untilEffective(upgraded.key, (answer) => limitOf(answer) === "300");
    expect(limitOf(response)).toBe("300");
    expect(Number(response.headers.get("X-RateLimit-Remaining"))).toBeLessThan(280);
    expect(response.headers.get("RateLimit")).toMatch(/"day";r=99\d\d;/);
  });

  it("lifts a ban and empties the windows within 30 seconds of a reset", async () => {
    await hammerUntilBanned(banned.key);
    await store.keysJson("reset", banned.id);
    const response = await untilEffective(banned.key, ({ status }) => status === 200);
    expect(response.status).toBe(200);
    expect(response.headers.get("RateLimit")).toBe('"minute";r=59;t=60, "day";r=999;t=86400');
  });

  it("refuses a revoked key within 30 seconds while it is used", async () => {
    expect((await service.list(revoked.key)).status).toBe(200);
    await store.keysJson("revoke", revoked.id);
    const response = await untilEffective(revoked.key, ({ status }) => status === 401);
    expect(response.status).toBe(401);
  });

  it("refuses a revoked key 30 seconds later when it was used just before", async () => {
    const [response] = await Promise.all([
      service.list(quiet.key),
      store.keysJson("revoke", quiet.id),
    ]);
    expect(response.status).toBe(200);
    await delay(EFFECTIVE_MS);
    expect((await service.list(quiet.key)).status).toBe(401);
  });
});
