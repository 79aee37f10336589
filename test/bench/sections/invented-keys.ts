import { setTimeout as wait } from "node:timers/promises";
import { Pool } from "undici";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { type Bench, listRequest } from "../bench.ts";
import type { Bundle } from "../bundle.ts";
import type { Request } from "../http.ts";
import { sendEvery, sendLoad, sendOne } from "../load.ts";
import { operationsSince } from "../operations.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore, type Store } from "../store.ts";
import type { Version } from "../version.ts";

const ORDERS = 10;
const INVENTED_KEYS = 1_000;
/** The time between two requests of the flood of invented keys: 5 ms are 200 requests a second. */
const INVENTED_EVERY_MS = 5;
/** The number of connections that send invented keys as fast as possible. */
const CONNECTIONS_AT_ONCE = 250;
/** The pause of the client with a valid key after each response, in milliseconds. */
const PAUSE_MS = 5;

/**
 * Sends series of invented keys. Each series comes from a new address, whose budget of failed
 * authentications (docs/limits.md) is still unused.
 */
class Flood {
  #turns = 0;

  requests(url: string): (index: number) => Request {
    this.#turns += 1;
    const address = `198.51.${Math.floor(this.#turns / 256)}.${this.#turns % 256}`;
    const keys = Array.from({ length: INVENTED_KEYS }, generateSecret);
    return (index) => listRequest(url, keys[index] ?? "", { "CF-Connecting-IP": address });
  }

  async send(url: string): Promise<void> {
    const requestAt = this.requests(url);
    const answers = await sendEvery(
      url,
      INVENTED_EVERY_MS,
      requestAt,
      (index) => index === INVENTED_KEYS,
    );
    const others = new Set(answers.filter((answer) => answer !== 401 && answer !== 429));
    if (others.size > 0) throw new Error(`Invented keys were answered ${[...others].join(", ")}.`);
  }
}

/**
 * Sends 1,000 invented keys from one address. Counts the D1 queries, and measures how much slower
 * the responses to a client with a valid key become.
 */
export async function inventedKeys(bench: Bench): Promise<Result[]> {
  const flood = new Flood();
  const results = [await queriesOf(bench, flood), await delayBy(bench, flood, bench.today)];
  const baseline = await bench.baseline();
  if (baseline !== null) results.push(await delayBy(bench, flood, baseline));
  return results;
}

async function queriesOf(bench: Bench, flood: Flood): Promise<Result> {
  const store = await bench.store(ORDERS);
  await using server = await start(
    await bench.worker("observed/counted-service"),
    store,
    "counted-invented",
  );
  bench.say("counting the queries for invented keys");
  const queries: number[] = [];
  for (let round = 0; round < bench.rounds; round += 1) {
    const requestAt = flood.requests(server.url);
    await operationsSince(server);
    await sendLoad({ requestAt, count: INVENTED_KEYS, connections: CONNECTIONS_AT_ONCE });
    queries.push((await operationsSince(server)).queries);
  }
  return {
    what: `${number(INVENTED_KEYS)} invented keys from one address on ${CONNECTIONS_AT_ONCE} connections: D1 queries`,
    service: medianText(queries, "queries"),
    peer: "",
    ratio: spreadOf(queries),
    target: null,
  };
}

async function delayBy(bench: Bench, flood: Flood, version: Version): Promise<Result> {
  const store = await version.store(ORDERS);
  await using server = await start(await version.service(), store, "invented");
  const { url } = server;
  bench.say(`a good client beside invented keys ${version.name}`);
  const figures = await takeTurns(bench.rounds, {
    usual: () => p95Beside(wait(INVENTED_KEYS * INVENTED_EVERY_MS), listRequest(url, store.key)),
    flooded: () => p95Beside(flood.send(url), listRequest(url, store.key)),
  });
  const isToday = version === bench.today;
  return {
    what: `A good client's p95 beside 200 invented keys a second${isToday ? "" : ` at ${version.name}`}: times its usual`,
    service: medianText(figures.flooded, "ms"),
    peer: medianText(figures.usual, "ms"),
    ratio: spreadOf(ratios(figures.flooded, figures.usual)),
    target: isToday ? { atMost: 2 } : null,
  };
}

async function start(bundle: Bundle, store: Store, name: string): Promise<Server> {
  return Server.start(bundle, { store: await copyStore(store, name), hasObjects: true });
}

/**
 * Repeats a request until `work` is done.
 *
 * @returns the 95th percentile of the response times in milliseconds.
 */
async function p95Beside(work: Promise<unknown>, request: Request): Promise<number> {
  let isDone = false;
  const stop = () => {
    isDone = true;
  };
  work.then(stop, stop);
  const pool = new Pool(new URL(request.url).origin, { connections: 1 });
  const times: number[] = [];
  while (!isDone) {
    const startMs = performance.now();
    const status = await sendOne(pool, request);
    times.push(performance.now() - startMs);
    if (status !== 200) throw new Error(`The good client was answered ${status}.`);
    await wait(PAUSE_MS);
  }
  await pool.destroy();
  await work;
  times.sort((one, other) => one - other);
  return times[Math.floor(times.length * 0.95)] ?? Number.NaN;
}
