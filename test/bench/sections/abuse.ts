import { setTimeout as wait } from "node:timers/promises";
import { PLAN_LIMITS } from "../../../src/worker/limit-rules/plans.ts";
import type { Bench } from "../bench.ts";
import { type Load, sendLoad } from "../load.ts";
import { costOf, operationsSince, PRODUCTION_VARS } from "../operations.ts";
import type { Cost, Report, Result } from "../report.ts";
import { spreadOf } from "../rounds.ts";
import { Server } from "../server.ts";
import { copyStore, type Store } from "../store.ts";
import { type Abuse, ABUSE, ALLOWED_ORIGIN, QUOTA_REQUESTS, type Sender } from "./abuse-traffic.ts";

/**
 * The number of requests in each kind of traffic. A drip sends one request a second, beyond the
 * limit per minute. It lasts less than a minute, because the next minute would admit requests.
 */
const REQUESTS = { flood: 2_000, drip: 50, quota: QUOTA_REQUESTS };
const DRIP_MS = 1_000;
const MOST_DOLLARS = 0.05;
/** The share of admitted requests if a Free key sends a million requests in a day. */
const ADMITTED_SHARE = PLAN_LIMITS.free.perDay / 1_000_000;

type PricedAbuse = Abuse & { readonly cost: Cost };

/**
 * Measures the price of abusive traffic: requests without a valid key, and requests beyond the
 * limits of a key. Reports the most expensive traffic of each kind of sender.
 */
export async function abuse(bench: Bench): Promise<Report> {
  const store = await bench.store(bench.orders / 10);
  await using server = await Server.start(await bench.worker("observed/counted-service"), {
    store: await copyStore(store, "abuse"),
    hasObjects: true,
    vars: { ...PRODUCTION_VARS, CORS_ORIGINS: ALLOWED_ORIGIN },
  });
  const priced: PricedAbuse[] = [];
  for (const kind of ABUSE) {
    bench.say(`counting the operations of: ${kind.sender}, ${kind.traffic}`);
    priced.push({ ...kind, cost: await price(server, store, kind) });
  }
  const results = Array.from(new Set(priced.map(({ sender }) => sender)), (sender) =>
    dearest(sender, priced),
  );
  return { results, costs: priced.map(({ cost }) => cost) };
}

async function price(server: Server, store: Store, abused: Abuse): Promise<Cost> {
  const { sender, traffic, kind, prepare } = abused;
  const requestAt = await prepare(server, store);
  await server.process.idle();
  await operationsSince(server);
  const count = REQUESTS[kind];
  if (kind === "flood") await sendLoad({ requestAt, count });
  // Requests within the limits run one by one: simultaneous requests would share reads and writes.
  if (kind === "quota") await sendAdmitted({ requestAt, count, connections: 1 });
  for (let index = 0; kind === "drip" && index < count; index += 1) {
    await sendLoad({ requestAt: () => requestAt(index), count: 1 });
    await wait(DRIP_MS);
  }
  await server.process.idle();
  return costOf(`${sender}, ${traffic}`, await operationsSince(server), count);
}

async function sendAdmitted(load: Load): Promise<void> {
  const { statuses } = await sendLoad(load);
  const refused = [...statuses.keys()].filter((status) => status >= 400);
  if (refused.length > 0)
    throw new Error(`Requests of a quota were answered ${refused.join(", ")}.`);
}

/**
 * Returns the result for the most expensive traffic of a sender: the price of a million requests in
 * a day. The service admits requests with a Free key up to the daily limit, and refuses the rest.
 */
function dearest(sender: Sender, priced: readonly PricedAbuse[]): Result {
  const most = (isQuota: boolean) =>
    priced
      .filter((abused) => abused.sender === sender && (abused.kind === "quota") === isQuota)
      .map(({ cost }) => cost)
      .toSorted((one, other) => other.dollarsPerMillion - one.dollarsPerMillion)[0];
  const [refused, admitted] = [most(false), most(true)];
  if (refused === undefined) throw new Error(`No traffic was measured ${sender}.`);
  const admittedDollars = (admitted?.dollarsPerMillion ?? 0) * ADMITTED_SHARE;
  const share = admitted === undefined ? 1 : 1 - ADMITTED_SHARE;
  return {
    what: `Dollars per million requests ${sender}, beyond the Worker's own fee`,
    service: `dearest: ${refused.request}`,
    peer: admitted === undefined ? "" : `with a day's quota: ${admitted.request}`,
    ratio: spreadOf([refused.dollarsPerMillion * share + admittedDollars]),
    target: { atMost: MOST_DOLLARS },
  };
}
