import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { OpenStore } from "../operator/store-folder.ts";
import { ClockedService } from "./clocked-service.ts";
import { createKeys, type NewKey } from "./create-keys.ts";

/** The time within which a change to a key takes effect (docs/api.md, Authentication). */
const EFFECTIVE_SECONDS = 30;
/** Refusals within this time after the first refusal are not strikes (docs/limits.md, Bans). */
const GRACE_SECONDS = 10;

const store = new OpenStore();
let service: ClockedService;
let keys: Record<"upgraded" | "banned", NewKey>;

beforeAll(async () => {
  keys = await createKeys(store, { upgraded: "free", banned: "free" });
  service = await ClockedService.start(store.path);
});
afterAll(async () => {
  await service[Symbol.asyncDispose]();
  await store.close();
});

/**
 * Sends a request every second of the service's clock. Returns the first response that `isWanted`
 * accepts, or the response after 30 seconds, when a change of the key must be in effect.
 */
async function untilEffective(
  { key }: NewKey,
  isWanted: (response: Response) => boolean,
): Promise<Response> {
  for (let seconds = 0; ; seconds += 1) {
    const response = await service.list(key);
    await response.arrayBuffer();
    if (isWanted(response) || seconds === EFFECTIVE_SECONDS) return response;
    await service.advance(1);
  }
}

/** Sends one request after the other until the body of a response contains `text`. */
async function hammerUntil(text: string, { key }: NewKey): Promise<void> {
  for (let requests = 0; requests < 2_000; requests += 1) {
    const response = await service.list(key);
    if ((await response.text()).includes(text)) return;
  }
  throw new Error(`never ${text}`);
}

// test/operator/verify tests further documented rules: exact limits under simultaneous requests,
// Retry-After, and the revocation of a key in use.
describe("a command that changes a key while the service runs", () => {
  it("applies a new plan's limits within 30 seconds, and keeps the count of requests", async () => {
    const { id, key } = keys.upgraded;
    for (let requests = 0; requests < 20; requests += 1) await service.list(key);
    await store.keysJson("update", id, "--plan", "pro");
    const limitOf = ({ headers }: Response) => headers.get("X-RateLimit-Limit");
    const response = await untilEffective(keys.upgraded, (answer) => limitOf(answer) === "300");
    expect(limitOf(response)).toBe("300");
    expect(Number(response.headers.get("X-RateLimit-Remaining"))).toBeLessThan(280);
    expect(response.headers.get("RateLimit")).toMatch(/"day";r=99\d\d;/);
  });

  it("lifts a ban and empties the windows within 30 seconds of a reset", async () => {
    await hammerUntil("rate_limit_exceeded", keys.banned);
    await service.advance(GRACE_SECONDS);
    await hammerUntil("api_key_banned", keys.banned);
    await store.keysJson("reset", keys.banned.id);
    const response = await untilEffective(keys.banned, ({ status }) => status === 200);
    expect(response.status).toBe(200);
    expect(response.headers.get("RateLimit")).toBe('"minute";r=59;t=60, "day";r=999;t=86400');
  });
});
