import { setTimeout as wait } from "node:timers/promises";
import { type Bench, listRequest } from "../bench.ts";
import { compareRates } from "../compare-rates.ts";
import { answerHeaders, type Request } from "../http.ts";
import type { Result } from "../report.ts";
import { Server } from "../server.ts";
import { copyStore, type Store } from "../store.ts";

const BAN_TIMEOUT_MS = 30_000;

/** So many strikes to a ban that a refused key stays a refused one. */
const NEVER_BANNED = { BAN_MIN_STRIKES: "1000000", BAN_MAX_STRIKES: "1000000" };
/** A ban that outlasts the benchmark. */
const LONG_BAN = { BAN_FIRST_SECONDS: "86400" };

/** The price of protection, on 32 connections: requests that are admitted, refused and banned. */
export async function requests(bench: Bench): Promise<Result[]> {
  const store = await bench.store(10);
  return [await admitted(bench, store), await refused(bench, store), await banned(bench, store)];
}

async function admitted(bench: Bench, store: Store): Promise<Result> {
  const what =
    "Admitted list of ten: speed of a bare Worker with one object write and one D1 select";
  await using service = await startService(bench, store, "admitted", {});
  await using bare = await Server.start(await bench.worker("peers/bare-request"), {
    store: await copyStore(store, "admitted-bare"),
    hasObjects: true,
  });
  const request = listRequest(service.url, store.key);
  const asked = { server: service, request, status: 200 };
  return await compareRates(bench, { what, atLeast: 0.85 }, asked, bare);
}

async function refused(bench: Bench, store: Store): Promise<Result> {
  const what = "Refused: speed of a bare Worker with one object call that does nothing";
  await using service = await startService(bench, store, "refused", NEVER_BANNED);
  await using bare = await Server.start(await bench.worker("peers/bare-object-call"), {
    store: await copyStore(store, "refused-bare"),
    hasObjects: true,
  });
  const request = listRequest(service.url, store.scarceKeys[0] ?? "");
  await answerHeaders(request);
  const asked = { server: service, request, status: 429 };
  return await compareRates(bench, { what, atLeast: 0.8 }, asked, bare);
}

async function banned(bench: Bench, store: Store): Promise<Result> {
  const what = "Banned: speed of a bare Worker that says hello";
  await using service = await startService(bench, store, "banned", LONG_BAN);
  await using bare = await Server.start(await bench.worker("peers/hello"), {
    store: await copyStore(store, "banned-bare"),
  });
  const request = listRequest(service.url, store.scarceKeys[1] ?? "");
  await provokeBan(request);
  const asked = { server: service, request, status: 429 };
  return await compareRates(bench, { what, atLeast: 0.7 }, asked, bare);
}

async function startService(
  bench: Bench,
  store: Store,
  name: string,
  vars: Record<string, string>,
): Promise<Server> {
  const copy = await copyStore(store, name);
  return Server.start(await bench.service(), { store: copy, hasObjects: true, vars });
}

/** Asks until the answer says that the key is banned for longer than its windows last. */
export async function provokeBan(request: Request): Promise<void> {
  const deadline = Date.now() + BAN_TIMEOUT_MS;
  while (Date.now() < deadline) {
    const response = await fetch(request.url, { headers: { ...request.headers } });
    if ((await response.text()).includes("api_key_banned")) return;
    await wait(10);
  }
  throw new Error("The key was not banned.");
}
