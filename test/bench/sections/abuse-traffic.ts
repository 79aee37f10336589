import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import { listRequest, provokeBan, type Request, sendLoad } from "../load.ts";
import type { Keys } from "../store.ts";

/** The origin that `CORS_ORIGINS` lists. */
export const ALLOWED_ORIGIN = "https://app.example";
/** More requests than a Free key may send in a minute. */
const MORE_THAN_A_MINUTE = 100;
const HEX = 16;

type RequestAt = (index: number) => Request;

/** A kind of traffic that an attacker can send to cause costs. */
export interface Abuse {
  readonly traffic: string;
  /** How the requests are sent. `flood`: as fast as possible. `drip`: one request a second. */
  readonly kind: "flood" | "drip";
  /** Prepares the service at `url`. Returns a function that creates each request by its index. */
  readonly prepare: (url: string, keys: Keys) => Promise<RequestAt> | RequestAt;
}

export const ABUSE: readonly Abuse[] = [
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

/** Creates a request with these headers. */
type Make = (url: string, headers: Record<string, string>, keys: Keys, index: number) => Request;

function flood(traffic: string, make: Make): Abuse {
  return {
    traffic,
    kind: "flood",
    prepare: (url, keys) => (index) => make(url, {}, keys, index),
  };
}

/** Adds the header with the client's address to each request, in a different /64 network each. */
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
