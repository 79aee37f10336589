import { z } from "zod";
import { INT64_MIN, parseInt64 } from "../../rules/int64.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { generateSecret } from "../../store/keys/new-secret.ts";
import { pause } from "../retry.ts";
import { type Call, call, expectAnswer, expectThat, LIST, type Trial, Untried } from "./answer.ts";

/** The number of simultaneous requests that use up a key's limit per minute. */
const CROWD = 200;
/** The number of looks at the quota, one after another. */
const LOOKS = 3;
/** Less than any int64. */
const NO_INT64 = INT64_MIN - 1n;
/** An origin that is in no service's `CORS_ORIGINS`, because RFC 2606 reserves `invalid`. */
const Origin = "https://verify.invalid";

/** The limits of the Free plan, which also apply to failed authentications from an IP address. */
const { perMinute, perDay } = PLAN_LIMITS.free;
const POLICY = { "RateLimit-Policy": `"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400` };
const NO_QUOTA = { RateLimit: null, "X-RateLimit-Limit": null };
const INVALID = ', error="invalid_token"';

/** Sends no key. */
const authorization = null;
/** A request that returns 304 without a body, so even a long list costs little. */
const ANY_TAG = { headers: { "If-None-Match": "*" } };
const UNCHANGED = { ...ANY_TAG, is: 304 };
const FILE = { authorization, isTraced: false, is: 200 };
const UNKNOWN_PATH = { path: "/v1/verify", is: "not_found" } as const;
const POST = { method: "POST", is: "method_not_allowed", has: { Allow: "GET, HEAD" } } as const;
const OTHER_TAG = { method: "HEAD", headers: { "If-None-Match": '"other"' }, is: 200 };
const SHIPPED = { is: "order_already_shipped" } as const;
const NO_ORDER = { is: "order_not_found" } as const;
const QUOTA = { path: "/v1/quota", is: 200, has: { "Cache-Control": "no-store" } } as const;
const FALSE_MATCH = { headers: { "If-Match": '"other"' }, is: "precondition_failed" } as const;
/** The request by which a healthy service is known. */
export const HEALTH = {
  path: "/healthz",
  authorization,
  is: 200,
  includes: '{"orders":"ok","keys":"ok","limiter":"ok"}',
};

/**
 * The promises of docs/api.md and docs/limits.md, in the sequence in which they must be tried: the many
 * simultaneous requests need a new minute window, and the revocation makes the key unusable.
 */
export const PROMISES: Readonly<Record<string, Call | ((trial: Trial) => Promise<unknown>)>> = {
  "GET /healthz reports that every part responds, and nothing else": {
    ...HEALTH,
    has: { "Cache-Control": "no-store", ...NO_QUOTA },
  },
  "The key is accepted": async (trial) => {
    const answer = await call(trial, ANY_TAG);
    if (answer.status === 401) {
      const why = "its store is not the one that holds the key (--env, --persist-to or stdin)";
      throw new Error(`the service at ${trial.url} does not know the key: ${why}`);
    }
    if (answer.status === 429) throw new Untried("the key's limit is used up");
    expectThat(answer, answer.status < 400, `the answer is ${answer.status}`);
    trial.seen.crowd = [answer];
  },
  [`Of ${CROWD} simultaneous requests, exactly as many are admitted as the minute has room for`]:
    async (trial) => {
      const { isReadOnly, revoke, seen } = trial;
      if (isReadOnly) throw new Untried("uses up the key's minute");
      if (!revoke || seen.crowd.length === 0) throw new Untried("needs a new Free key");
      const requests = Array.from({ length: CROWD }, () => call(trial, ANY_TAG));
      seen.crowd = [...seen.crowd, ...(await Promise.all(requests))];
      const times = seen.crowd.map(({ receivedMs }) => receivedMs);
      if (Math.max(...times) - Math.min(...times) >= 60_000) {
        seen.crowd = [];
        throw new Untried("the responses took longer than a minute");
      }
      const admitted = seen.crowd.filter(({ status }) => status !== 429);
      const left = new Set(admitted.map(({ windows: [minute] }) => minute?.remaining)).size;
      const isExact = admitted.length === perMinute && left === perMinute;
      const fault = `${admitted.length} are admitted, with ${left} values of X-RateLimit-Remaining`;
      for (const answer of seen.crowd) expectThat(answer, isExact, fault);
      for (const answer of admitted) expectAnswer(answer, { is: 304, has: POLICY });
    },
  "A request over the limit returns 429, counts in no window, and is admitted after Retry-After":
    async (trial) => {
      const refusals = trial.seen.crowd.filter(({ status }) => status === 429);
      if (refusals.length === 0) throw new Untried("no request was refused");
      let endMs = 0;
      for (const answer of refusals) {
        const full = answer.windows.filter(({ remaining }) => remaining === 0);
        const seconds = Math.max(0, ...full.map(({ resetSeconds }) => resetSeconds));
        const has = { "X-RateLimit-Remaining": "0", "Retry-After": `${seconds}` };
        expectAnswer(answer, { is: "rate_limit_exceeded", has });
        // The key is new, so its day window has counted only the requests admitted in this minute.
        const counted = perDay - answer.dayLeft;
        expectThat(answer, counted === perMinute, `the day has counted ${counted}`);
        endMs = Math.max(endMs, answer.receivedMs + seconds * 1_000);
      }
      await pause(endMs - Date.now(), trial.signal);
      await call(trial, UNCHANGED);
    },
  "The reference page needs no key": { ...FILE, path: "/", includes: "<!doctype html>" },
  "openapi.json needs no key": { ...FILE, path: "/openapi.json", includes: '"openapi": "3.1' },
  "A path outside /v1 returns 404": { path: "/x", authorization, is: "not_found", has: NO_QUOTA },
  "Without a key the response is 401": refused({}),
  "An empty Authorization header returns 401": refused({ authorization: "" }),
  "A scheme other than Bearer returns 401": refused({ authorization: "Basic YTpi" }),
  "Bearer without a token returns 401": refused({ authorization: "Bearer" }),
  "Two tokens return 401": refused({ authorization: "Bearer a b" }, INVALID),
  "A mistyped key returns 401": refused({ authorization: "Bearer sord_a" }, INVALID),
  "An unknown key returns 401": refused({ authorization: `Bearer ${generateSecret()}` }, INVALID),
  "A key in the query string or a cookie is ignored": (trial) => {
    const { key } = trial;
    const path = `${LIST}?${new URLSearchParams({ key, api_key: key }).toString()}`;
    const headers = { Cookie: `key=${key}; Authorization=${key}`, "X-API-Key": key };
    return call(trial, refused({ path, headers }));
  },
  "An unknown path under /v1 returns 401 without a key": refused({ path: "/v1/verify" }),
  "An origin that is not listed may not ask whether it may call": refused({
    method: "OPTIONS",
    headers: { Origin, "Access-Control-Request-Method": "DELETE" },
  }),
  "Scripts of an origin that is not listed may not call": refused({ headers: { Origin } }),
  "The list is one JSON array, in ascending id, with int64 in plain decimals": async (trial) => {
    const list = await call(trial, { is: 200 });
    let last = NO_INT64;
    for (const [, name, digits = ""] of list.body.matchAll(/"(id|petId|quantity)":([^,}]*)/g)) {
      const value = parseInt64(digits) ?? NO_INT64;
      const isRight = value > (name === "id" ? last : NO_INT64);
      expectThat(list, isRight, `the list has the ${name} ${digits} after the order ${last}`);
      if (name === "id") last = value;
    }
  },
  "If-None-Match with the list's ETag returns 304, and HEAD with another tag 200": async (
    trial,
  ) => {
    // `call` checks that a response to HEAD has the documented headers and no body.
    const tag = (await call(trial, OTHER_TAG)).headers.get("ETag");
    for (const condition of [tag, `"other", W/${tag}`, "*"]) {
      const headers = { "If-None-Match": `${condition}` };
      await call(trial, { headers, is: 304, has: { "Content-Type": null } });
    }
  },
  "If-Match with another tag returns 412": FALSE_MATCH,
  "Query parameters are ignored": { ...UNCHANGED, path: `${LIST}?page=2` },
  "The scheme's name is case-insensitive": (trial) =>
    call(trial, { ...UNCHANGED, authorization: `bEARER ${trial.key}` }),
  "The response to a request without X-Request-Id has a new id": async (trial) => {
    const answer = await call(trial, { ...UNCHANGED, isTraced: false });
    const isUuid = z.uuid().safeParse(answer.headers.get("X-Request-Id")).success;
    expectThat(answer, isUuid, "X-Request-Id is no UUID");
  },
  "An unknown path returns 404": UNKNOWN_PATH,
  "A path with a trailing slash returns 404": { path: `${LIST}/`, is: "not_found" },
  "An orderId that is no int64 returns 404": async (trial) => {
    for (const id of ["abc", "1.5", "007", "+5", "-0", "9223372036854775808"]) {
      await cancel(trial, id, { ...NO_ORDER, includes: "int64" });
    }
  },
  "Any other method returns 405 with Allow": POST,
  "Any other method of an order returns 405 with Allow": {
    ...POST,
    path: `${LIST}/1`,
    has: { Allow: "DELETE" },
  },
  "Each request counts once, also a 304, 404, 405 or 412": async (trial) => {
    let before = Infinity;
    for (const each of [UNCHANGED, UNKNOWN_PATH, POST, FALSE_MATCH, UNKNOWN_PATH]) {
      const answer = await call(trial, { ...each, is: undefined, has: {} });
      const left = answer.dayLeft;
      // Without `revoke`, the operator passed in the key, so another client may use it meanwhile.
      const isAsExpected = trial.revoke ? [Infinity, left + 1].includes(before) : left < before;
      expectThat(answer, isAsExpected, `${left} requests are left in the day after ${before}`);
      before = left;
    }
  },
  "Looking at the quota costs nothing, and says the same as the headers": async (trial) => {
    const { signal, revoke } = trial;
    const before = await call(trial, UNCHANGED);
    // Those who look share a quota for a second.
    await pause(1_000, signal);
    for (let times = 0; times < LOOKS; times += 1) {
      const look = await call(trial, QUOTA);
      for (const { name, limit, remaining } of look.windows) {
        const stated = `{"name":"${name}","limit":${limit},"remaining":${remaining},`;
        expectThat(look, look.body.includes(stated), `the body does not include ${stated}`);
      }
      const used = before.dayLeft - look.dayLeft;
      expectThat(look, !revoke || used === 0, `${used} requests were counted before a look`);
    }
    const after = await call(trial, UNCHANGED);
    const used = before.dayLeft - after.dayLeft;
    expectThat(after, !revoke || used === 1, `${used} requests were counted with ${LOOKS} looks`);
  },
  "A cancellation whose precondition is false returns 412": async (trial) => {
    const { id } = ordersOf(trial);
    for (const { headers } of [FALSE_MATCH, ANY_TAG]) {
      await cancel(trial, id, { ...FALSE_MATCH, headers });
    }
  },
  "An order is listed digit for digit": async (trial) => {
    const { json: includes } = ordersOf(trial);
    trial.seen.list = await call(trial, { is: 200, includes });
  },
  "Of simultaneous requests that cancel one order, one returns 204": async (trial) => {
    const { id } = ordersOf(trial);
    const requests = Array.from({ length: 10 }, () => cancel(trial, id));
    const answers = await Promise.all(requests);
    const cancelled = answers.filter(({ status }) => status === 204).length;
    for (const answer of answers) {
      if (answer.status !== 204) expectAnswer(answer, NO_ORDER);
      expectThat(answer, cancelled === 1, `${cancelled} requests returned 204`);
    }
  },
  "A list that begins after a cancellation lacks the order": async (trial) => {
    const { json } = ordersOf(trial);
    const headers = { "If-None-Match": trial.seen.list?.headers.get("ETag") ?? "" };
    const list = await call(trial, { headers, is: 200 });
    expectThat(list, !list.body.includes(json), "the list has the order");
  },
  "Cancelling a shipped order returns 409, and the order stays": async (trial) => {
    const { shippedId: id } = ordersOf(trial);
    if (id === undefined) throw new Untried("no order has shipped");
    // The second response would be 404 if the first request had cancelled the order.
    await cancel(trial, id, SHIPPED);
    await cancel(trial, id, SHIPPED);
  },
  "A revoked key stops working within 30 seconds, also while it is used": async (trial) => {
    const { signal, revoke } = trial;
    if (!revoke) throw new Untried("cannot revoke the key: name its store with --env");
    await revoke();
    const endMs = Date.now() + 30_000;
    for (;;) {
      const isLate = Date.now() >= endMs;
      const answer = await call(trial, ANY_TAG);
      // The key's own minute has room for all of these requests: a 429 is the address's.
      if (/401|429/.test(`${answer.status}`)) return expectAnswer(answer, { is: "unauthorized" });
      expectThat(answer, !isLate, `the answer is ${answer.status} after 30 seconds`);
      await pause(Math.max(0, Math.min(2_000, endMs - Date.now())), signal);
    }
  },
};

/** A request whose credentials are refused. `error` is the end of `WWW-Authenticate`. */
function refused(request: Call, error = ""): Call {
  const challenge = `Bearer realm="store-orders"${error}`;
  const has = { "WWW-Authenticate": challenge, "Access-Control-Allow-Origin": null, ...POLICY };
  return { authorization, is: "unauthorized", has, ...request };
}

/** @throws {Untried} if the verification has placed no order. */
function ordersOf({ orders, isReadOnly }: Trial) {
  if (orders === undefined)
    throw new Untried(`places an order${isReadOnly ? "" : ": add --write"}`);
  return orders;
}

function cancel(trial: Trial, id: bigint | string, expected: Call = {}) {
  return call(trial, { ...expected, path: `${LIST}/${id}`, method: "DELETE" });
}
