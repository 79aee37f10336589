import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import type { Bench } from "../bench.ts";
import { listRequest, type Request, send } from "../load.ts";
import type { Delays } from "../observed/delayed-service.ts";
import { medianText, type Table } from "../report.ts";
import type { Server } from "../server.ts";
import type { Keys } from "../store.ts";

/** The duration of a round trip between continents, in milliseconds. */
export const FAR_MS = 150;

export const NEAR: Delays = { object: 0, orders: 0, keys: 0, replica: 0 };

/** The duration of a round trip within the Worker's region, in milliseconds. */
const REGIONAL_MS = 10;

/** The columns of the table: how far the parts of the service are from the Worker. */
const PLACES: Readonly<Record<string, { delays: Delays; vars?: Record<string, string> }>> = {
  "all parts near": { delays: NEAR },
  "Durable Object far": { delays: { ...NEAR, object: FAR_MS } },
  "orders database far": { delays: { ...NEAR, orders: FAR_MS } },
  "keys database far": { delays: { ...NEAR, keys: FAR_MS } },
  "all parts far": { delays: { object: FAR_MS, orders: FAR_MS, keys: FAR_MS, replica: FAR_MS } },
  "near reads, both databases far": {
    delays: { object: REGIONAL_MS, orders: FAR_MS, keys: FAR_MS, replica: REGIONAL_MS },
    vars: { LIST_READS: "nearest" },
  },
};

/** The number of orders in the store. Each round cancels one of them. */
const ORDERS = 100;

interface Kind {
  readonly request: string;
  readonly status: number;
  /** Returns the request to measure, after sending the requests that must precede it. */
  readonly make: (unused: Unused, url: string) => Promise<Request> | Request;
}

/**
 * Supplies keys that the isolate has not cached, and ids of orders that are in the list. Each round
 * uses two of the 16 scarce keys, so `--rounds` must be at most 8.
 */
interface Unused {
  readonly unlimited: () => string;
  readonly scarce: () => string;
  readonly orderId: () => number;
}

/**
 * Measures each kind of request while a round trip to some parts of the service takes 150 ms. The
 * time shows how many of these round trips the request makes one after another.
 */
export async function distance(bench: Bench): Promise<Table> {
  const rows = KINDS.map(({ request }) => [request]);
  for (const [place, { delays, vars = {} }] of Object.entries(PLACES)) {
    const worker = "observed/delayed-service";
    await using server = await bench.serve({ worker, orders: ORDERS, vars });
    bench.say(`requests with ${place}`);
    const unused = unusedOf(bench.keys);
    for (const [index, kind] of KINDS.entries()) {
      const times: number[] = [];
      for (let round = 0; round < bench.rounds; round += 1) {
        await setDelays(server, NEAR);
        const request = await kind.make(unused, server.url);
        await setDelays(server, delays);
        const startMs = performance.now();
        await send(request, kind.status);
        times.push(performance.now() - startMs);
      }
      rows[index]?.push(medianText(times, "ms"));
    }
  }
  return { head: ["Request", ...Object.keys(PLACES)], rows };
}

const KINDS: readonly Kind[] = [
  {
    request: "list, key in memory",
    status: 200,
    make: async (unused, url) => known(listRequest(url, unused.unlimited())),
  },
  {
    request: "304, key in memory",
    status: 304,
    make: async (unused, url) => {
      const key = unused.unlimited();
      const { etag = "" } = (await send(listRequest(url, key))).headers;
      return listRequest(url, key, { "If-None-Match": String(etag) });
    },
  },
  {
    request: "list, new key",
    status: 200,
    make: (unused, url) => listRequest(url, unused.unlimited()),
  },
  {
    request: "list after an own cancellation",
    status: 200,
    make: async (unused, url) => {
      const list = await known(await known(listRequest(url, unused.unlimited())));
      await send(cancellation(list, unused.orderId()), 204);
      return list;
    },
  },
  {
    request: "cancellation, key in memory",
    status: 404,
    make: async (unused, url) => cancellation(await known(listRequest(url, unused.unlimited()))),
  },
  {
    request: "cancellation, new key",
    status: 404,
    make: (unused, url) => cancellation(listRequest(url, unused.unlimited())),
  },
  { request: "401, malformed key", status: 401, make: (_, url) => listRequest(url, "sord_no") },
  {
    request: "401, unknown key",
    status: 401,
    make: (_, url) => listRequest(url, generateSecret()),
  },
  {
    request: "429, first refusal",
    status: 429,
    make: async (unused, url) => known(listRequest(url, unused.scarce())),
  },
  {
    request: "429, further refusals",
    status: 429,
    make: async (unused, url) => known(await known(listRequest(url, unused.scarce()))),
  },
];

async function known(request: Request): Promise<Request> {
  await send(request);
  return request;
}

/** Returns a request that cancels an order; by default, an order that does not exist. */
function cancellation(list: Request, id = 0): Request {
  return { ...list, method: "DELETE", url: `${list.url}/${id}` };
}

function unusedOf({ unlimited, scarce }: Keys): Unused {
  const supply = (keys: Keys["scarce"]) => {
    const left = [...keys];
    return () => left.pop()?.key ?? "";
  };
  let id = 0;
  return { unlimited: supply(unlimited), scarce: supply(scarce), orderId: () => ++id };
}

export async function setDelays({ url }: Server, delays: Delays): Promise<void> {
  const response = await fetch(`${url}/delays`, { method: "PUT", body: JSON.stringify(delays) });
  if (!response.ok) throw new Error(`The delays could not be set: ${response.status}.`);
}
