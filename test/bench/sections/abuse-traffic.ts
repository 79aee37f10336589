import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { listRequest } from "../bench.ts";
import { provokeBan } from "../ban.ts";
import type { Request } from "../http.ts";
import { sendLoad } from "../load.ts";
import type { Server } from "../server.ts";
import type { Store } from "../store.ts";

/** The origin that `CORS_ORIGINS` lists. */
export const ALLOWED_ORIGIN = "https://app.example";
/** More requests than a Free key may send in a minute. */
const MORE_THAN_A_MINUTE = 100;
const HEX = 16;
/** The number of requests in traffic that stays within the limits of a key. */
export const QUOTA_REQUESTS = 200;

export type Sender = "without a key" | "with a Free key" | "with a revoked key";

/** A kind of traffic that an attacker can send to cause costs. */
export interface Abuse {
  readonly sender: Sender;
  readonly traffic: string;
  /**
   * How the requests are sent. `flood`: as fast as possible. `drip`: one request a second. `quota`:
   * within the limits of a key.
   */
  readonly kind: "flood" | "drip" | "quota";
  /**
   * Prepares the service. Returns a function that creates the request with a given index in the
   * traffic.
   */
  readonly prepare: (server: Server, store: Store) => Promise<(index: number) => Request>;
}

export const ABUSE: readonly Abuse[] = [
  flood("without a key", "no key", ({ url }) => withoutKey(url)),
  flood(
    "without a key",
    "no key, a new /64 each",
    ({ url }, _, network) =>
      (index) =>
        withoutKey(url, network(index))(),
  ),
  flood(
    "without a key",
    "malformed keys, a new /64 each",
    ({ url }, _, network) =>
      (index) =>
        listRequest(url, "not a key", network(index)),
  ),
  flood(
    "without a key",
    "invented keys",
    ({ url }) =>
      () =>
        listRequest(url, generateSecret()),
  ),
  flood(
    "without a key",
    "invented keys, a new /64 each",
    ({ url }, _, network) =>
      (index) =>
        listRequest(url, generateSecret(), network(index)),
  ),
  flood(
    "without a key",
    "preflights, a new /64 each",
    ({ url }, _, network) =>
      (index) =>
        preflight(url, ALLOWED_ORIGIN, network(index)),
  ),
  flood(
    "without a key",
    "preflights of other origins, a new /64 each",
    ({ url }, _, network) =>
      (index) =>
        preflight(url, "https://other.example", network(index)),
  ),
  flood(
    "with a revoked key",
    "a flood",
    ({ url }, { revokedKey }) =>
      () =>
        listRequest(url, revokedKey),
  ),
  flood(
    "with a revoked key",
    "a flood, a new /64 each",
    ({ url }, { revokedKey }, network) =>
      (index) =>
        listRequest(url, revokedKey, network(index)),
  ),
  {
    sender: "with a Free key",
    traffic: "a flood beyond the limit",
    kind: "flood",
    prepare: (server, { freeKeys }) => exhausted(server, freeKeys[0]),
  },
  {
    sender: "with a Free key",
    traffic: "a flood during a ban",
    kind: "flood",
    async prepare({ url }, { freeKeys }) {
      const request = listRequest(url, freeKeys[1] ?? "");
      await provokeBan(request);
      return () => request;
    },
  },
  {
    sender: "with a Free key",
    traffic: "one request a second beyond the limit",
    kind: "drip",
    prepare: (server, { freeKeys }) => exhausted(server, freeKeys[2]),
  },
  {
    sender: "with a Free key",
    traffic: "within the limit, cancellations",
    kind: "quota",
    prepare: ({ url }, store) => Promise.resolve((index) => cancellation(url, store, index)),
  },
  {
    sender: "with a Free key",
    traffic: "within the limit, a list after each cancellation",
    kind: "quota",
    prepare: ({ url }, store) =>
      Promise.resolve((index) =>
        index % 2 === 0
          ? cancellation(url, store, QUOTA_REQUESTS + index)
          : listRequest(url, store.key),
      ),
  },
];

/**
 * Describes a flood, which is sent as fast as possible.
 *
 * @param requests returns a function that creates the request with a given index in the flood. For
 *   each index, `network` returns a header with a client address in a different /64 network.
 */
function flood(
  sender: Sender,
  traffic: string,
  requests: (
    server: Server,
    store: Store,
    network: (index: number) => Record<string, string>,
  ) => (index: number) => Request,
): Abuse {
  const prepare = (server: Server, store: Store) => {
    const site = Math.floor(Math.random() * HEX ** 4).toString(HEX);
    const network = (index: number) => ({
      "CF-Connecting-IP": `2001:db8:${site}:${index.toString(HEX)}::1`,
    });
    return Promise.resolve(requests(server, store, network));
  };
  return { sender, traffic, kind: "flood", prepare };
}

function withoutKey(url: string, headers: Record<string, string> = {}): () => Request {
  return () => ({ url: `${url}/v1/store/orders`, headers });
}

function preflight(url: string, origin: string, headers: Record<string, string>): Request {
  const asked = { Origin: origin, "Access-Control-Request-Method": "GET", ...headers };
  return { url: `${url}/v1/store/orders`, method: "OPTIONS", headers: asked };
}

/**
 * Returns a cancellation. Uses the key without limits instead of a Free key, because an admitted
 * request costs the same on every plan.
 */
function cancellation(url: string, { key }: Store, index: number): Request {
  const list = listRequest(url, key);
  return { ...list, url: `${list.url}/${index + 10}`, method: "DELETE" };
}

async function exhausted({ url }: Server, key = ""): Promise<() => Request> {
  const requestAt = () => listRequest(url, key);
  await sendLoad({ requestAt, count: MORE_THAN_A_MINUTE });
  return requestAt;
}
