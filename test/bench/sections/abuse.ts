import { setTimeout as wait } from "node:timers/promises";
import type { Bench } from "../bench.ts";
import { listRequest, operationsSince, provokeBan, type Request, sendLoad } from "../load.ts";
import { PRICES } from "../../../src/operator/metrics/prices.ts";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import type { Operations } from "../observed/counted-service.ts";
import { number, type Result, spreadOf } from "../report.ts";
import type { Server } from "../server.ts";
import type { Keys } from "../store.ts";

const ALLOWED_ORIGIN = "https://app.example";
/** More requests than a Free key may send in a minute. */
const MORE_THAN_A_MINUTE = 100;
const HEX = 16;

/** The number of requests. A drip, one a second, ends before the next minute admits requests. */
const REQUESTS = { flood: 2_000, drip: 50 };
const BYTES_OF_GB = 1_000_000_000;
const DRIP_MS = 1_000;
const MOST_DOLLARS = 0.05;
/** The vars of production that change the number of billed operations. */
const VARS = { REQUEST_LOG: "all", CORS_ORIGINS: ALLOWED_ORIGIN };

/** Measures the price of requests without a valid key, and beyond the limits of a key. */
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

type RequestAt = (index: number) => Request;

/** A kind of traffic that an attacker can send to cause costs. */
interface Abuse {
  readonly traffic: string;
  /** `flood`: as fast as possible. `drip`: one request a second. */
  readonly kind: "flood" | "drip";
  readonly prepare: (url: string, keys: Keys) => Promise<RequestAt> | RequestAt;
}

const ABUSE: readonly Abuse[] = [
  flood("no key", withoutKey),
  flood("no key, a new /64 each", networks(withoutKey)),
  flood(
    "malformed keys, a new /64 each",
    networks((url, headers) => listRequest(url, "not a key", headers)),
  ),
  flood("invented keys", inventedKey),
  flood("invented keys, a new /64 each", networks(inventedKey)),
  flood("preflights, a new /64 each", networks(preflight(ALLOWED_ORIGIN))),
  flood("preflights of other origins, a new /64 each", networks(preflight("https://b.example"))),
  flood("a revoked key", (url, _, keys) => listRequest(url, keys.revoked[0]?.key ?? "")),
  flood(
    "a revoked key, a new /64 each",
    networks((url, headers, keys) => listRequest(url, keys.revoked[0]?.key ?? "", headers)),
  ),
  { traffic: "a Free key beyond its limit", kind: "flood", prepare: exhausted(0) },
  {
    traffic: "a Free key during a ban",
    kind: "flood",
    async prepare(url, { free }) {
      const request = listRequest(url, free[1]?.key ?? "");
      await provokeBan(request);
      return () => request;
    },
  },
  {
    traffic: "a Free key beyond its limit, one request a second",
    kind: "drip",
    prepare: exhausted(2),
  },
];

type Make = (url: string, headers: Record<string, string>, keys: Keys, index: number) => Request;

function flood(traffic: string, make: Make): Abuse {
  return {
    traffic,
    kind: "flood",
    prepare: (url, keys) => (index) => make(url, {}, keys, index),
  };
}

/** Sends each request from an address in another /64 network. */
function networks(make: Make): Make {
  const site = Math.floor(Math.random() * HEX ** 4).toString(HEX);
  return (url, headers, keys, index) => {
    const address = `2001:db8:${site}:${index.toString(HEX)}::1`;
    return make(url, { ...headers, "CF-Connecting-IP": address }, keys, index);
  };
}

function withoutKey(url: string, headers: Record<string, string>): Request {
  return { url: `${url}/v1/store/orders`, headers };
}

function inventedKey(url: string, headers: Record<string, string>): Request {
  return listRequest(url, generateSecret(), headers);
}

function preflight(origin: string): Make {
  return (url, headers) => {
    const asked = { Origin: origin, "Access-Control-Request-Method": "GET", ...headers };
    return { url: `${url}/v1/store/orders`, method: "OPTIONS", headers: asked };
  };
}

/** Uses up the requests of a minute of the Free key with this index. */
function exhausted(key: number): Abuse["prepare"] {
  return async (url, { free }) => {
    const requestAt = () => listRequest(url, free[key]?.key ?? "");
    await sendLoad({ requestAt, count: MORE_THAN_A_MINUTE });
    return requestAt;
  };
}

/** Returns the price of operations. Cloudflare bills rows, not queries, and no data points yet. */
function dollarsOf(counted: Operations, withTelemetry: boolean): number {
  const { objectCalls, objectRowsWritten, rowsRead, rowsWritten, dataPoints, logGb } = PRICES;
  const dollars =
    counted.objectCalls * objectCalls.dollars +
    counted.objectRowsWritten * objectRowsWritten.dollars +
    counted.rowsRead * rowsRead.dollars +
    counted.rowsWritten * rowsWritten.dollars +
    (withTelemetry ? counted.dataPoints * dataPoints.dollars : 0);
  const logDollars = withTelemetry ? (counted.logBytes / BYTES_OF_GB) * logGb.dollars : 0;
  return dollars / 1e6 + logDollars;
}
