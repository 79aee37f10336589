import { setTimeout as wait } from "node:timers/promises";
import type { Bench } from "../bench.ts";
import { sendLoad } from "../load.ts";
import { dollarsOf, operationsSince } from "../operations.ts";
import { number, type Result, spreadOf } from "../report.ts";
import type { Server } from "../server.ts";
import { type Abuse, ABUSE, ALLOWED_ORIGIN } from "./abuse-traffic.ts";

/**
 * The number of requests in each kind of traffic. A drip sends one request a second, beyond the
 * limit per minute. It lasts less than a minute, because the next minute would admit requests.
 */
const REQUESTS = { flood: 2_000, drip: 50 };
const DRIP_MS = 1_000;
const MOST_DOLLARS = 0.05;
/** The vars of production that change the number of billed operations. */
const VARS = { REQUEST_LOG: "all", CORS_ORIGINS: ALLOWED_ORIGIN };

/**
 * Measures the price of abusive traffic: requests without a valid key, and requests beyond the
 * limits of a key.
 */
export async function abuse(bench: Bench): Promise<Result[]> {
  const orders = bench.orders / 10;
  await using server = await bench.serve({
    worker: "observed/counted-service",
    orders,
    vars: VARS,
  });
  const results: Result[] = [];
  for (const kind of ABUSE) {
    bench.say(`counting the operations of: ${kind.traffic}`);
    results.push(await price(bench, server, kind));
  }
  return results;
}

async function price(bench: Bench, server: Server, abused: Abuse): Promise<Result> {
  const { traffic, kind, prepare } = abused;
  const requestAt = await prepare(server.url, bench.keys);
  await server.process.idle();
  await operationsSince(server);
  const count = REQUESTS[kind];
  if (kind === "flood") await sendLoad({ requestAt, count });
  for (let index = 0; kind === "drip" && index < count; index += 1) {
    await sendLoad({ requestAt: () => requestAt(index), count: 1 });
    await wait(DRIP_MS);
  }
  await server.process.idle();
  const counted = await operationsSince(server);
  const each = (operations: number) => number(operations / count);
  const dollarsOfMillion = (withTelemetry: boolean) =>
    (dollarsOf(counted, withTelemetry) / count) * 1e6;
  return {
    what: `Dollars per million requests beyond the Worker's own fee: ${traffic}`,
    service: `$${number(dollarsOfMillion(false))}, with log and data points $${number(dollarsOfMillion(true))}`,
    peer: `each: ${each(counted.objectCalls)} object calls, ${each(counted.objectRowsWritten)} rows written by the object, ${each(counted.queries)} queries`,
    ratio: spreadOf([dollarsOfMillion(false)]),
    target: { atMost: MOST_DOLLARS },
  };
}
