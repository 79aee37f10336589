import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import type { Bench } from "../bench.ts";
import { listRequest, type Request, send } from "../load.ts";
import type { Delays } from "../observed/delayed-service.ts";
import { medianText, type Table } from "../report.ts";
import type { Server } from "../server.ts";
import type { Keys } from "../store.ts";

/** The duration of a round trip between continents, in milliseconds. */
export const FAR_MS = 150;

export const NEAR = { object: 0, orders: 0, keys: 0 };

/** The parts of the service that are far from the Worker, and the delay of each binding. */
const PLACES = {
  nothing: NEAR,
  "the object": { ...NEAR, object: FAR_MS },
  "the orders": { ...NEAR, orders: FAR_MS },
  "the keys": { ...NEAR, keys: FAR_MS },
  everything: { object: FAR_MS, orders: FAR_MS, keys: FAR_MS },
} as const satisfies Record<string, Delays>;

interface Kind {
  readonly request: string;
  /** The HTTP status that the measured response must have. */
  readonly status: number;
  /** Sends the requests that must precede the measured request, then returns that request. */
  readonly make: (keys: FreshKeys, url: string) => Promise<Request> | Request;
}

/** API keys that the service's isolate has not cached yet. A scarce key admits one request a day. */
type FreshKeys = Readonly<Record<"unlimited" | "scarce", () => string>>;

/**
 * Measures the duration of each kind of request while a round trip to some parts of the service
 * takes 150 ms. The duration shows how many of these round trips the request makes one after
 * another.
 */
export async function distance(bench: Bench): Promise<Table> {
  const rows = KINDS.map(({ request }) => [request]);
  for (const [far, delays] of Object.entries(PLACES)) {
    await using server = await bench.serve({ worker: "observed/delayed-service" });
    bench.say(`requests while ${far} is ${FAR_MS} ms away`);
    const keys = freshKeys(bench.keys);
    for (const [index, kind] of KINDS.entries()) {
      const times: number[] = [];
      for (let round = 0; round < bench.rounds; round += 1) {
        await setDelays(server, NEAR);
        const request = await kind.make(keys, server.url);
        await setDelays(server, delays);
        const startMs = performance.now();
        await send(request, kind.status);
        times.push(performance.now() - startMs);
      }
      rows[index]?.push(medianText(times, "ms"));
    }
  }
  return { head: ["Request", ...Object.keys(PLACES).map((far) => `${far} far away`)], rows };
}

const KINDS: readonly Kind[] = [
  {
    request: "list, key in memory",
    status: 200,
    make: async (keys, url) => known(listRequest(url, keys.unlimited())),
  },
  {
    request: "304, key in memory",
    status: 304,
    make: async (keys, url) => {
      const key = keys.unlimited();
      const { etag = "" } = (await send(listRequest(url, key))).headers;
      return listRequest(url, key, { "If-None-Match": String(etag) });
    },
  },
  {
    request: "list, new key",
    status: 200,
    make: (keys, url) => listRequest(url, keys.unlimited()),
  },
  {
    request: "cancellation, key in memory",
    status: 404,
    make: async (keys, url) => cancellation(await known(listRequest(url, keys.unlimited()))),
  },
  {
    request: "cancellation, new key",
    status: 404,
    make: (keys, url) => cancellation(listRequest(url, keys.unlimited())),
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
    make: async (keys, url) => known(listRequest(url, keys.scarce())),
  },
  {
    request: "429, further refusals",
    status: 429,
    make: async (keys, url) => known(await known(listRequest(url, keys.scarce()))),
  },
];

async function known(request: Request): Promise<Request> {
  await send(request);
  return request;
}

function cancellation(list: Request): Request {
  return { ...list, method: "DELETE", url: `${list.url}/0` };
}

function freshKeys(keys: Keys): FreshKeys {
  const supply = (name: keyof FreshKeys) => {
    const unused = [...keys[name]];
    return () => unused.pop()?.key ?? "";
  };
  return { unlimited: supply("unlimited"), scarce: supply("scarce") };
}

export async function setDelays({ url }: Server, delays: Delays): Promise<void> {
  const response = await fetch(`${url}/delays`, { method: "PUT", body: JSON.stringify(delays) });
  if (!response.ok) throw new Error(`The delays could not be set: ${response.status}.`);
}
