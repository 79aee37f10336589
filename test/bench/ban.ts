import { setTimeout as wait } from "node:timers/promises";
import type { Request } from "./http.ts";

const BAN_TIMEOUT_MS = 30_000;

/** Sends requests with a key until the service bans the key. */
export async function provokeBan(request: Request): Promise<void> {
  const deadline = Date.now() + BAN_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(request.url, { headers: { ...request.headers } });
    if ((await response.text()).includes("api_key_banned")) return;
    await wait(10);
  }
  throw new Error("The key was not banned.");
}
