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
  const startService = await serviceOn(bench, store, "admitted", {});
  const startBare = await bareWorkerOn(bench, store, "admitted-bare", "bare-request");
  const start = async () => {
    const server = await startService();
    return { server, request: listRequest(server.url, store.key), status: 200 };
  };
  return compareRates(bench, { what, atLeast: 0.85 }, start, startBare);
}

async function refused(bench: Bench, store: Store): Promise<Result> {
  const what = "Refused: speed of a bare Worker with one object call that does nothing";
  const startService = await serviceOn(bench, store, "refused", NEVER_BANNED);
  const startBare = await bareWorkerOn(bench, store, "refused-bare", "bare-object-call");
  const start = async () => {
    const server = await startService();
    const request = listRequest(server.url, store.scarceKeys[0] ?? "");
    await answerHeaders(request);
    return { server, request, status: 429 };
  };
  return compareRates(bench, { what, atLeast: 0.8 }, start, startBare);
}

async function banned(bench: Bench, store: Store): Promise<Result> {
  const what = "Banned: speed of a bare Worker that says hello";
  const startService = await serviceOn(bench, store, "banned", LONG_BAN);
  const startBare = await bareWorkerOn(bench, store, "banned-bare", "hello");
  const start = async () => {
    const server = await startService();
    const request = listRequest(server.url, store.scarceKeys[1] ?? "");
    await provokeBan(request);
    return { server, request, status: 429 };
  };
  return compareRates(bench, { what, atLeast: 0.7 }, start, startBare);
}

/** What starts the service on a copy of the store. */
export async function serviceOn(
  bench: Bench,
  store: Store,
  name: string,
  vars: Record<string, string>,
): Promise<() => Promise<Server>> {
  const bundle = await bench.service();
  const options = { store: await copyStore(store, name), hasObjects: true, vars };
  return () => Server.start(bundle, options);
}

/** What starts one of the bare Workers on a copy of the store. */
export async function bareWorkerOn(
  bench: Bench,
  store: Store,
  name: string,
  peer: string,
): Promise<() => Promise<Server>> {
  const bundle = await bench.worker(`peers/${peer}`);
  const options = { store: await copyStore(store, name), hasObjects: peer !== "hello" };
  return () => Server.start(bundle, options);
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
