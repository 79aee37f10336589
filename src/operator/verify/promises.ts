import { z } from "zod";
import { parseInt64 } from "../../rules/int64.ts";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { generateSecret } from "../keys/key-changes.ts";
import {
  type Answer,
  type Call,
  call,
  expectAnswer,
  type Expected,
  expectThat,
  LIST,
} from "./answer.ts";
import { type OwnOrders, type ServicePromise, type Trial, Untried } from "./service-promise.ts";

/** The number of simultaneous requests that use up a key's limit per minute. */
const CROWD = 200;
/** The number of simultaneous requests that cancel one order. */
const CANCELLERS = 10;
/** The time within which a revocation takes effect (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;
const PAUSE_MS = 2_000;
/** Values of `orderId` that are no plain decimal int64. */
const NO_ORDER_IDS = ["abc", "1.5", "007", "+5", "-0", "9223372036854775808"];
/** An origin that is in no service's `CORS_ORIGINS`, because RFC 2606 reserves `invalid`. */
const FOREIGN_ORIGIN = "https://verify.invalid";

/** The limits of the Free plan, which also apply to failed authentications from an IP address. */
const { perMinute, perDay } = PLAN_LIMITS.free;
const POLICY = `"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`;

const isStatic = true;
const withKey = true;
/** A request that returns 304 without a body, so even a long list costs little. */
const UNCHANGED = { withKey, headers: { "If-None-Match": "*" } };
const FALSE_MATCH = { withKey, headers: { "If-Match": '"other"' } };
const OTHER_TAG = { withKey, method: "HEAD", headers: { "If-None-Match": '"other"' } };
const UNKNOWN_PATH = { withKey, path: "/v1/verify" };
const POST = { withKey, method: "POST" };
const PUT_ORDER = { withKey, path: `${LIST}/1`, method: "PUT" };

const OK = { status: 200 };
const NOT_MODIFIED = { status: 304 };
const NO_KEY = unauthorized("");
const INVALID_KEY = unauthorized(', error="invalid_token"');
const NOT_FOUND = { status: 404, code: "not_found" };
const NO_CORS = { ...NO_KEY, headers: { ...NO_KEY.headers, "Access-Control-Allow-Origin": null } };
const NO_ORDER = { status: 404, code: "order_not_found" };
const NOT_ALLOWED = { status: 405, code: "method_not_allowed" };
const SHIPPED = { status: 409, code: "order_already_shipped" };
const FAILED = { status: 412, code: "precondition_failed" };
const NO_QUOTA = { RateLimit: null, "X-RateLimit-Limit": null };

/**
 * The promises of docs/api.md and docs/limits.md, in the sequence in which they must be tried:
 *
 * - The many simultaneous requests come next after the first one with the key, because they need a
 *   new minute window. They fill it, so only requests without the key follow until it ends.
 * - The revocation comes last, because it makes the key unusable.
 */
export const PROMISES: readonly ServicePromise[] = [
  promise("GET /healthz reports that every part responds, and nothing else", [], async (trial) => {
    const answer = await call(trial, { path: "/healthz" });
    const isHealthy = answer.body === JSON.stringify({ orders: "ok", keys: "ok", limiter: "ok" });
    expectThat(answer, isHealthy, `the answer is ${answer.status} ${answer.body.slice(0, 200)}`);
    expectAnswer(answer, { ...OK, headers: { "Cache-Control": "no-store", ...NO_QUOTA } });
  }),
  promise("The key is accepted", ["key"], async (trial) => {
    const answer = await call(trial, UNCHANGED);
    if (answer.status === 401) {
      const why = "its store is not the one that holds the key (--env, --persist-to or stdin)";
      throw new Error(`the service at ${trial.url} does not know the key: ${why}`);
    }
    trial.seen.crowd = [answer];
    if (answer.status === 429) throw new Untried("the key's limit is used up");
    expectThat(answer, answer.status < 400, `the answer is ${answer.status}`);
  }),
  promise(
    `Of ${CROWD} simultaneous requests, exactly as many are admitted as the minute has room for`,
    ["limit", "key"],
    async (trial) => {
      const requests = Array.from({ length: CROWD }, () => call(trial, UNCHANGED));
      trial.seen.crowd = [...trial.seen.crowd, ...(await Promise.all(requests))];
      expectExactness(trial.seen.crowd);
    },
  ),
  promise(
    "A refused request returns 429 with Retry-After, and counts in no window",
    ["limit", "key"],
    async (trial) => refusalsIn(trial).forEach(expectRefusal),
  ),
  answered(
    "The reference page needs no key",
    { path: "/", isStatic },
    { ...OK, body: "<!doctype html>" },
  ),
  answered(
    "openapi.json needs no key",
    { path: "/openapi.json", isStatic },
    { ...OK, body: '"openapi": "3.1' },
  ),
  answered("A path outside /v1 returns 404", { path: "/x" }, { ...NOT_FOUND, headers: NO_QUOTA }),
  refused("Without a key the response is 401", NO_KEY, {}),
  refused("An empty Authorization header returns 401", NO_KEY, authorized("")),
  refused("A scheme other than Bearer returns 401", NO_KEY, authorized("Basic YTpi")),
  refused("Bearer without a token returns 401", NO_KEY, authorized("Bearer")),
  refused("Two tokens return 401", INVALID_KEY, authorized("Bearer a b")),
  refused("A mistyped key returns 401", INVALID_KEY, authorized("Bearer sord_a")),
  refused("An unknown key returns 401", INVALID_KEY, authorized(`Bearer ${generateSecret()}`)),
  refused("A key in the query string or a cookie is ignored", NO_KEY, ({ key = "" }) => ({
    path: `${LIST}?${new URLSearchParams({ key, api_key: key }).toString()}`,
    headers: { Cookie: `key=${key}; Authorization=${key}`, "X-API-Key": key },
  })),
  refused("An unknown path under /v1 returns 401 without a key", NO_KEY, { path: "/v1/verify" }),
  refused("An origin that is not listed may not ask whether it may call", NO_CORS, {
    method: "OPTIONS",
    headers: { Origin: FOREIGN_ORIGIN, "Access-Control-Request-Method": "DELETE" },
  }),
  refused("Scripts of an origin that is not listed may not call", NO_CORS, {
    headers: { Origin: FOREIGN_ORIGIN },
  }),
  promise("A client that waits for Retry-After is admitted", ["limit", "key"], async (trial) => {
    const ends = refusalsIn(trial).map(
      ({ receivedMs, headers }) => receivedMs + Number(headers.get("Retry-After")) * 1_000,
    );
    await trial.clock.wait(Math.max(...ends) - trial.clock.now(), trial.signal);
    await call(trial, UNCHANGED, NOT_MODIFIED);
  }),
  promise("The list is one JSON array, in ascending id", ["key"], async (trial) => {
    const answer = await readList(trial);
    const ids = [...answer.body.matchAll(/\{"id":(-?\d+)/g)].map(([, id]) => BigInt(id ?? ""));
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id));
    expectThat(answer, isAscending, "the ids do not ascend");
  }),
  promise("Integers are int64 in plain decimals", ["key"], async (trial) => {
    const answer = await readList(trial);
    for (const [, digits = ""] of answer.body.matchAll(/"(?:id|petId|quantity)":([^,}]*)/g)) {
      expectThat(answer, parseInt64(digits) !== undefined, `the list has the integer ${digits}`);
    }
  }),
  promise("If-None-Match with the list's ETag returns 304", ["key"], async (trial) => {
    const tag = (await readList(trial)).headers.get("ETag") ?? "";
    for (const condition of [tag, `"other", W/${tag}`, "*"]) {
      const request = { withKey, headers: { "If-None-Match": condition } };
      await call(trial, request, { ...NOT_MODIFIED, headers: { "Content-Type": null } });
    }
  }),
  // `call` checks that a response to HEAD has the documented headers and no body.
  answered("HEAD, and If-None-Match with another tag, returns 200", OTHER_TAG, OK),
  answered("If-Match with another tag returns 412", FALSE_MATCH, FAILED),
  answered("Query parameters are ignored", { ...UNCHANGED, path: `${LIST}?page=2` }, NOT_MODIFIED),
  promise("The scheme's name is case-insensitive", ["key"], (trial) => {
    const headers = { Authorization: `bEARER ${trial.key}`, ...UNCHANGED.headers };
    return call(trial, { headers }, NOT_MODIFIED);
  }),
  promise("The response to a request without X-Request-Id has a new id", ["key"], async (trial) => {
    const answer = await call(trial, { ...UNKNOWN_PATH, sendsId: false });
    const isUuid = z.uuid().safeParse(answer.headers.get("X-Request-Id")).success;
    expectThat(answer, isUuid, "X-Request-Id is no UUID");
  }),
  answered("An unknown path returns 404", UNKNOWN_PATH, NOT_FOUND),
  answered("A path with a trailing slash returns 404", { withKey, path: `${LIST}/` }, NOT_FOUND),
  promise("An orderId that is no int64 returns 404", ["key"], async (trial) => {
    for (const id of NO_ORDER_IDS) await cancel(trial, id, { ...NO_ORDER, body: "int64" });
  }),
  answered("Any other method returns 405 with Allow", POST, allowing("GET, HEAD")),
  answered("Any other method of an order returns 405 with Allow", PUT_ORDER, allowing("DELETE")),
  promise("Each request counts once, also a 304, 404, 405 or 412", ["key"], async (trial) => {
    let before = Infinity;
    for (const each of [UNCHANGED, UNKNOWN_PATH, POST, FALSE_MATCH, UNKNOWN_PATH]) {
      const answer = await call(trial, each);
      const left = answer.windows[1]?.remaining ?? NaN;
      // Without `revoke`, the operator passed in the key, so another client may use it meanwhile.
      const isAsExpected = trial.revoke ? [Infinity, left + 1].includes(before) : left < before;
      expectThat(answer, isAsExpected, `${left} requests are left in the day after ${before}`);
      before = left;
    }
  }),
  withOrders(
    "A cancellation whose precondition is false returns 412",
    async (trial, { pending }) => {
      await cancel(trial, pending.id, FAILED, FALSE_MATCH.headers);
      await cancel(trial, pending.id, FAILED, UNCHANGED.headers);
    },
  ),
  withOrders("An order is listed digit for digit", async (trial, { pending: { id, json } }) => {
    trial.seen.list = await call(trial, { withKey, readTo: id }, { ...OK, body: json });
  }),
  withOrders(
    "Of simultaneous requests that cancel one order, one returns 204",
    async (trial, { pending }) => {
      const requests = Array.from({ length: CANCELLERS }, () => cancel(trial, pending.id));
      const answers = await Promise.all(requests);
      const cancelled = answers.filter(({ status }) => status === 204).length;
      for (const answer of answers) {
        if (answer.status !== 204) expectAnswer(answer, NO_ORDER);
        expectThat(answer, cancelled === 1, `${cancelled} requests returned 204`);
      }
    },
  ),
  withOrders("Cancelling a cancelled order returns 404", (trial, { pending }) =>
    cancel(trial, pending.id, NO_ORDER),
  ),
  withOrders(
    "A list that begins after a cancellation lacks the order",
    async (trial, { pending }) => {
      const headers = { "If-None-Match": trial.seen.list?.headers.get("ETag") ?? "" };
      const list = await call(trial, { withKey, headers, readTo: pending.id }, OK);
      expectThat(list, !list.body.includes(pending.json), "the list has the order");
    },
  ),
  withOrders("Cancelling a shipped order returns 409, and the order stays", async (trial, own) => {
    const { shippedId: id } = own;
    if (id === null) throw new Untried("none of the store's first orders has shipped");
    await cancel(trial, id, SHIPPED);
    const list = await call(trial, { withKey, readTo: id }, OK);
    expectThat(list, new RegExp(`\\{"id":${id}[,}]`).test(list.body), "the list lacks the order");
  }),
  promise(
    "A revoked key stops working within 30 seconds, also while it is used",
    ["revoke", "key"],
    async (trial) => {
      const { clock, signal, revoke } = trial;
      await revoke?.();
      const endMs = clock.now() + EFFECTIVE_MS;
      for (;;) {
        const isLate = clock.now() >= endMs;
        const answer = await call(trial, UNCHANGED);
        if (answer.status === 401) return;
        // The key's own minute has room for all of these requests.
        requireBudget(answer);
        expectThat(answer, !isLate, `the answer is ${answer.status} after 30 seconds`);
        await clock.wait(Math.max(0, Math.min(PAUSE_MS, endMs - clock.now())), signal);
      }
    },
  ),
];

function promise(
  title: string,
  needs: ServicePromise["needs"],
  test: ServicePromise["test"],
): ServicePromise {
  return { title, needs, test };
}

/** A promise that a request is answered as expected. */
function answered(title: string, request: Call, expected: Expected): ServicePromise {
  return promise(title, request.withKey ? ["key"] : [], (trial) => call(trial, request, expected));
}

/** A promise that bad credentials are refused. It is not tried again after it has been kept once. */
function refused(
  title: string,
  expected: Expected,
  request: Call | ((trial: Trial) => Call),
): ServicePromise {
  const usesKey = typeof request === "function";
  return promise(title, usesKey ? ["key"] : [], async (trial) => {
    if (trial.triedCredentials?.has(title)) throw new Untried("was tried before");
    const answer = await call(trial, usesKey ? request(trial) : request);
    requireBudget(answer);
    expectAnswer(answer, expected);
    trial.triedCredentials?.add(title);
  });
}

/** @throws {Untried} if this address may send no more bad credentials for a while. */
function requireBudget({ status }: Answer): void {
  if (status === 429) throw new Untried("this address has sent too many bad credentials");
}

function withOrders(
  title: string,
  test: (trial: Trial, orders: OwnOrders) => Promise<unknown>,
): ServicePromise {
  return promise(
    title,
    ["orders", "key"],
    async (trial) => trial.orders !== undefined && (await test(trial, trial.orders)),
  );
}

function unauthorized(error: string) {
  const challenge = `Bearer realm="store-orders"${error}`;
  const headers = { "WWW-Authenticate": challenge, "RateLimit-Policy": POLICY };
  return { status: 401, code: "unauthorized", headers };
}

function allowing(Allow: string): Expected {
  return { ...NOT_ALLOWED, headers: { Allow } };
}

function authorized(Authorization: string): Call {
  return { headers: { Authorization } };
}

function refusalsIn({ seen }: Trial): readonly Answer[] {
  const refusals = seen.crowd.filter(({ status }) => status === 429);
  if (refusals.length === 0) throw new Untried("no request was refused");
  return refusals;
}

function expectExactness(answers: readonly Answer[]): void {
  const admitted = answers.filter(({ status }) => status !== 429);
  const left = new Set(admitted.map(({ windows: [minute] }) => minute?.remaining));
  const isExact = admitted.length === perMinute && left.size === perMinute;
  const fault = `${admitted.length} are admitted, with ${left.size} values of X-RateLimit-Remaining`;
  for (const answer of answers) expectThat(answer, isExact, fault);
  for (const answer of admitted) {
    expectAnswer(answer, { ...NOT_MODIFIED, headers: { "RateLimit-Policy": POLICY } });
  }
}

function expectRefusal(answer: Answer): void {
  const full = answer.windows.filter(({ remaining }) => remaining === 0);
  const seconds = Math.max(0, ...full.map(({ resetSeconds }) => resetSeconds));
  const headers = { "X-RateLimit-Remaining": "0", "Retry-After": String(seconds) };
  expectAnswer(answer, { status: 429, code: "rate_limit_exceeded", headers });
  // The key is new, so its day window has counted only the requests admitted in this minute.
  const counted = perDay - (answer.windows[1]?.remaining ?? NaN);
  expectThat(answer, counted === perMinute, `the day has counted ${counted}, not ${perMinute}`);
}

/** Returns the beginning of the list of orders, which is requested only once. */
async function readList(trial: Trial): Promise<Answer> {
  return (trial.seen.list ??= await call(trial, { withKey }, OK));
}

function cancel(
  trial: Trial,
  id: bigint | string,
  expected?: Expected,
  headers: Call["headers"] = {},
): Promise<Answer> {
  return call(trial, { withKey, path: `${LIST}/${id}`, method: "DELETE", headers }, expected);
}
