import { type Bench, listRequest } from "../bench.ts";
import { compareRates, type Side } from "../compare-rates.ts";
import { CONNECTIONS, requestRate } from "../load.ts";
import { operationsSince } from "../operations.ts";
import { medianText, type Result } from "../report.ts";
import { spreadOf } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore, type Store } from "../store.ts";
import type { Version } from "../version.ts";

const ORDERS = 10;
const COUNTED_REQUESTS = 3_000;

/** A kind of traffic: how many connections send requests, and with how many keys. */
interface Traffic {
  readonly name: string;
  readonly what: string;
  readonly keys: "one" | "many";
  readonly connections: number;
  readonly atLeast: number;
}

const TRAFFIC: readonly Traffic[] = [
  {
    name: "hot-key",
    what: "one key, 32 connections",
    keys: "one",
    connections: CONNECTIONS,
    atLeast: 1.25,
  },
  {
    name: "one-connection",
    what: "one key, one connection",
    keys: "one",
    connections: 1,
    atLeast: 0.95,
  },
  {
    name: "many-keys",
    what: "64 keys in turn, 32 connections",
    keys: "many",
    connections: CONNECTIONS,
    atLeast: 0.95,
  },
];

/**
 * Measures admitted lists of ten orders: the rows written per admission, and the rate compared with
 * the baseline commit's rate.
 */
export async function hotKey(bench: Bench): Promise<Result[]> {
  const results = [await rowsForAnAdmission(bench)];
  const baseline = await bench.baseline();
  if (baseline === null) return results;
  for (const traffic of TRAFFIC) {
    results.push(
      await compareRates(bench, {
        what: `Admitted list of ten, ${traffic.what}: speed of ${baseline.name}`,
        atLeast: traffic.atLeast,
        connections: traffic.connections,
        service: await side(bench.today, traffic),
        peer: await side(baseline, traffic),
      }),
    );
  }
  return results;
}

async function rowsForAnAdmission(bench: Bench): Promise<Result> {
  const store = await bench.store(ORDERS);
  await using server = await Server.start(await bench.worker("observed/counted-service"), {
    store: await copyStore(store, "counted-admissions"),
    hasObjects: true,
  });
  const request = listRequest(server.url, store.key);
  bench.say("counting the rows written for an admission");
  const rows: number[] = [];
  for (let round = 0; round <= bench.rounds; round += 1) {
    await operationsSince(server);
    await requestRate({ requestAt: () => request, count: COUNTED_REQUESTS }, 200);
    const { objectRowsWritten } = await operationsSince(server);
    if (round > 0) rows.push(objectRowsWritten / COUNTED_REQUESTS);
  }
  return {
    what: "Admitted list of ten, one key, 32 connections: rows written for an admission",
    service: medianText(rows, "rows"),
    peer: "",
    ratio: spreadOf(rows),
    target: { atMost: 0.3 },
  };
}

async function side(version: Version, { name, keys }: Traffic): Promise<Side> {
  const bundle = await version.service();
  const store = await version.store(ORDERS);
  const copy = await copyStore(store, name);
  return {
    start: () => Server.start(bundle, { store: copy, hasObjects: true }),
    prepare: ({ url }) => Promise.resolve(listsWith(store, keys, url)),
    status: 200,
  };
}

function listsWith(store: Store, keys: Traffic["keys"], url: string) {
  const used = keys === "one" ? [store.key] : store.keys;
  const requests = used.map((key) => listRequest(url, key));
  return (index: number) => requests[index % requests.length] ?? listRequest(url, store.key);
}
