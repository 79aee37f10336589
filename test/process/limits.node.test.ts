import { expect, test } from "vitest";
import { OpenStore } from "../operator/store-folder.ts";
import { ClockedService } from "./clocked-service.ts";
import { createKeys } from "./create-keys.ts";

/** The time within which a change to a key takes effect (docs/api.md, Authentication). */
const EFFECTIVE_SECONDS = 30;
/** Refusals within this time after the first refusal are not strikes (docs/limits.md, Bans). */
const GRACE_SECONDS = 10;

// test/operator/verify tests further documented rules: exact limits under simultaneous requests,
// Retry-After, and the revocation of a key in use.
test("the command reset lifts a ban and empties the windows within 30 seconds", async () => {
  const store = new OpenStore();
  const { banned } = await createKeys(store, { banned: "free" });
  const service = await ClockedService.start(store.path);
  const hammerUntil = async (code: string): Promise<void> => {
    for (let requests = 0; requests < 2_000; requests += 1) {
      const response = await service.list(banned.key);
      if ((await response.text()).includes(code)) return;
    }
    throw new Error(`never ${code}`);
  };
  try {
    await hammerUntil("rate_limit_exceeded");
    await service.advance(GRACE_SECONDS);
    await hammerUntil("api_key_banned");
    await store.keysJson("reset", banned.id);
    await service.advance(EFFECTIVE_SECONDS);
    const response = await service.list(banned.key);
    expect(response.status).toBe(200);
    expect(response.headers.get("RateLimit")).toBe('"minute";r=59;t=60, "day";r=999;t=86400');
  } finally {
    await service[Symbol.asyncDispose]();
    await store.close();
  }
});
