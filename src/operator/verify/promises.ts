import { z } from "zod";
import { PLAN_LIMITS } from "../../rules/limits/plans.ts";
import { parseInt64 } from "../../rules/int64.ts";
import { generateSecret } from "../keys/key-changes.ts";
import {
  type Answer,
  answered,
  type Call,
  call,
  expectAnswer,
  type Expected,
  expectThat,
  LIST,
} from "./answer.ts";
import {
  type OwnOrders,
  type ServicePromise,
  type Trial,
  UnknownKeyError,
  Untried,
} from "./service-promise.ts";

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

const withKey = true;
/** A request that returns 304 without a body, so even a long list costs little. */
const UNCHANGED = { withKey, headers: { "If-None-Match": "*" } };

/** The limits of the Free plan, which also apply to failed authentications from an IP address. */
const { perMinute, perDay } = PLAN_LIMITS.free;
const CHALLENGE = 'Bearer realm="store-orders"';
const NO_KEY = unauthorized(CHALLENGE);
const INVALID_KEY = unauthorized(`${CHALLENGE}, error="invalid_token"`);
const NO_QUOTA = { RateLimit: null, "X-RateLimit-Limit": null };
const NOT_FOUND = { status: 404, code: "not_found" };
const CANCELLED = { status: 404, code: "order_not_found" };

/**
 * The promises of docs/api.md and docs/limits.md, in the sequence in which they must be tried:
 *
 * - The many simultaneous requests come next after the first one with the key, because they need a
 *   new minute window. They fill it, so only requests without the key follow until it ends.
 * - The revocation comes last, because it makes the key unusable.
 */
export const PROMISES: readonly ServicePromise[] = [
  tried("GET /healthz reports that every part responds, and nothing else", [], async (trial) => {
    const answer = await call(trial, { path: "/healthz" });
    const isHealthy = answer.body === JSON.stringify({ orders: "ok", keys: "ok", limiter: "ok" });
    const found = `the answer is ${answer.status} ${answer.body.slice(0, 200)}`;
    expectThat(answer, isHealthy, found);
    expectAnswer(answer, { status: 200, headers: { "Cache-Control": "no-store", ...NO_QUOTA } });
  }),
  tried("The key is accepted", ["key"], async (trial) => {
    const answer = await call(trial, UNCHANGED);
    if (answer.status === 401) {
      throw new UnknownKeyError(
        `the service at ${trial.url} does not know the key: its store is another one than the one that holds the key (--env, --persist-to or standard input)`,
      );
    }
    trial.seen.crowd = [answer];
    if (answer.status === 429) throw new Untried("the key's limit is used up");
    expectThat(answer, answer.status < 400, `the answer is ${answer.status}`);
  }),
  tried(
    `Of ${CROWD} simultaneous requests, exactly as many are admitted as the minute has room for`,
    ["limit", "key"],
    async (trial) => {
      const requests = Array.from({ length: CROWD }, () => call(trial, UNCHANGED));
      trial.seen.crowd = [...trial.seen.crowd, ...(await Promise.all(requests))];
      expectExactness(trial.seen.crowd);
    },
  ),
  tried(
    "A refused request returns 429 with Retry-After, and counts in no window",
    ["limit", "key"],
    async (trial) => refusalsIn(trial).forEach(expectRefusal),
  ),
  answered("The reference page needs no key", [{ path: "/", isStatic: true }], {
    status: 200,
    body: "<!doctype html>",
  }),
  answered("openapi.json needs no key", [{ path: "/openapi.json", isStatic: true }], {
    status: 200,
    body: '"openapi": "3.1',
  }),
  answered("A path outside /v1 returns 404", [{ path: `/verify-${crypto.randomUUID()}` }], {
    ...NOT_FOUND,
    headers: NO_QUOTA,
  }),
  refused("Without a key the response is 401", {}, NO_KEY),
  refused("An empty Authorization header returns 401", authorized(""), NO_KEY),
  refused("A scheme other than Bearer returns 401", authorized("Basic YTpi"), NO_KEY),
  refused("Bearer without a token returns 401", authorized("Bearer"), NO_KEY),
  refused("Two tokens return 401", authorized("Bearer a b"), INVALID_KEY),
  refused("A mistyped key returns 401", authorized("Bearer sord_a"), INVALID_KEY),
  refused("An unknown key returns 401", authorized(`Bearer ${generateSecret()}`), INVALID_KEY),
  credentialsTried("A key in the query string or a cookie is ignored", ["key"], async (trial) => {
    const { key = "" } = trial;
    const query = new URLSearchParams({ key, api_key: key });
    const headers = { Cookie: `key=${key}; Authorization=${key}`, "X-API-Key": key };
    await expectRefusedCredentials(trial, { path: `${LIST}?${query.toString()}`, headers }, NO_KEY);
  }),
  refused("An unknown path under /v1 returns 401 without a key", { path: "/v1/verify" }, NO_KEY),
  credentialsTried("Scripts of an origin that is not listed may not call", [], async (trial) => {
    const request = { headers: { Origin: FOREIGN_ORIGIN } };
    for (const each of [preflightFrom(FOREIGN_ORIGIN), request]) {
      const answer = await expectRefusedCredentials(trial, each, NO_KEY);
      const [allowed] = [...answer.headers.keys()].filter((name) => name.startsWith("access-"));
      expectThat(answer, allowed === undefined, `the answer has ${allowed}`);
    }
  }),
  tried("A client that waits for Retry-After is admitted", ["limit", "key"], async (trial) => {
    const ends = refusalsIn(trial).map(
      ({ receivedMs, headers }) => receivedMs + Number(headers.get("Retry-After")) * 1_000,
    );
    await trial.clock.wait(Math.max(...ends) - trial.clock.now(), trial.signal);
    expectAnswer(await call(trial, UNCHANGED), { status: 304 });
  }),
  tried("The list is one JSON array, in ascending id", ["key"], async (trial) => {
    const answer = await readList(trial);
    expectAnswer(answer, { status: 200 });
    const ids = [...answer.body.matchAll(/\{"id":(-?\d+)/g)].map(([, id]) => BigInt(id ?? ""));
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id));
    expectThat(answer, isAscending, "the ids do not ascend");
  }),
  tried("Integers are int64 in plain decimals", ["key"], async (trial) => {
    const answer = await readList(trial);
    for (const [, digits = ""] of answer.body.matchAll(/"(?:id|petId|quantity)":([^,}]*)/g)) {
      const isInt64 = parseInt64(digits) !== undefined;
      expectThat(answer, isInt64, `the list has the integer ${digits}`);
    }
  }),
  tried("If-None-Match with the list's ETag returns 304", ["key"], async (trial) => {
    const tag = (await readList(trial)).headers.get("ETag") ?? "";
    for (const condition of [tag, `"other", W/${tag}`, "*"]) {
      const answer = await call(trial, { withKey, headers: { "If-None-Match": condition } });
      expectAnswer(answer, { status: 304, headers: { "Content-Type": null } });
    }
  }),
  answered(
    "If-None-Match with another tag returns 200",
    [{ withKey, method: "HEAD", headers: { "If-None-Match": '"other"' } }],
    { status: 200 },
  ),
  answered(
    "HEAD returns the response of GET without the body",
    [{ withKey, method: "HEAD" }],
    // `call` checks that a response to HEAD has the documented headers and no body.
    { status: 200, headers: { "Content-Type": "application/json" } },
  ),
  answered("Query parameters are ignored", [{ ...UNCHANGED, path: `${LIST}?limit=1&page=2` }], {
    status: 304,
  }),
  tried("The scheme's name is case-insensitive", ["key"], async (trial) => {
    const headers = { Authorization: `bEARER ${trial.key}`, ...UNCHANGED.headers };
    expectAnswer(await call(trial, { headers }), { status: 304 });
  }),
  tried("The response to a request without X-Request-Id has a new id", ["key"], async (trial) => {
    const answer = await call(trial, { withKey, path: `${LIST}/`, sendsId: false });
    const isUuid = z.uuid().safeParse(answer.headers.get("X-Request-Id")).success;
    expectThat(answer, isUuid, "X-Request-Id is no UUID");
  }),
  answered(
    "An unknown path, or a path with a trailing slash, returns 404",
    ["/v1/verify", `${LIST}/`].map((path) => ({ withKey, path })),
    NOT_FOUND,
  ),
  answered(
    "An orderId that is no int64 returns 404",
    NO_ORDER_IDS.map((id) => ({ withKey, path: `${LIST}/${id}`, method: "DELETE" })),
    { status: 404, code: "order_not_found", body: "int64" },
  ),
  answered("Any other method returns 405 with Allow", [{ withKey, method: "POST" }], {
    status: 405,
    code: "method_not_allowed",
    headers: { Allow: "GET, HEAD" },
  }),
  answered(
    "Any other method of an order returns 405 with Allow",
    [{ withKey, path: `${LIST}/1`, method: "HEAD" }],
    { status: 405, headers: { Allow: "DELETE" } },
  ),
  tried(
    "Each request counts once, also if the response is 304, 404 or 405",
    ["key"],
    expectEachCounts,
  ),
  withOrders("An order is listed digit for digit", async (trial, { pending }) => {
    const list = await call(trial, { withKey, readTo: pending.id });
    expectAnswer(list, { status: 200 });
    expectThat(list, list.body.includes(pending.json), `the list lacks ${pending.json}`);
    trial.seen.list = list;
  }),
  withOrders(
    "Of simultaneous requests that cancel one order, one returns 204",
    async (trial, { pending }) => {
      const requests = Array.from({ length: CANCELLERS }, () => cancel(trial, pending.id));
      const answers = await Promise.all(requests);
      const cancelled = answers.filter(({ status }) => status === 204).length;
      for (const answer of answers) {
        if (answer.status !== 204) expectAnswer(answer, CANCELLED);
        expectThat(answer, cancelled === 1, `${cancelled} requests returned 204`);
      }
    },
  ),
  withOrders("Cancelling a cancelled order returns 404", async (trial, { pending }) => {
    expectAnswer(await cancel(trial, pending.id), CANCELLED);
  }),
  withOrders(
    "A list that begins after a cancellation lacks the order",
    async (trial, { pending }) => {
      const headers = { "If-None-Match": trial.seen.list?.headers.get("ETag") ?? "" };
      const list = await call(trial, { withKey, headers, readTo: pending.id });
      expectAnswer(list, { status: 200 });
      expectThat(list, !list.body.includes(pending.json), "the list has the order");
    },
  ),
  withOrders(
    "Cancelling a shipped order returns 409, and the order stays",
    async (trial, { shippedId }) => {
      if (shippedId === null) throw new Untried("none of the store's first orders has shipped");
      const refusal = await cancel(trial, shippedId);
      expectAnswer(refusal, { status: 409, code: "order_already_shipped" });
      const list = await call(trial, { withKey, readTo: shippedId });
      const isListed = new RegExp(`\\{"id":${shippedId}[,}]`).test(list.body);
      expectThat(list, isListed, "the list lacks the order");
    },
  ),
  tried(
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
        const fault = `a request with the key returns ${answer.status} after 30 seconds`;
        expectThat(answer, !isLate, fault);
        await clock.wait(Math.max(0, Math.min(PAUSE_MS, endMs - clock.now())), signal);
      }
    },
  ),
];

function tried(
  title: string,
  needs: ServicePromise["needs"],
  test: ServicePromise["test"],
): ServicePromise {
  return { title, needs, test };
}

/** A promise that the service refuses bad credentials. */
function refused(title: string, request: Call, expected: Expected): ServicePromise {
  return credentialsTried(title, [], async (trial) => {
    await expectRefusedCredentials(trial, request, expected);
  });
}

/** A promise that is not tried again after it has been kept once. */
function credentialsTried(...[title, needs, test]: Parameters<typeof tried>): ServicePromise {
  return tried(title, needs, async (trial) => {
    const { triedCredentials } = trial;
    if (triedCredentials?.has(title)) throw new Untried("was tried before");
    await test(trial);
    triedCredentials?.add(title);
  });
}

/** @throws {Untried} if this address may send no more bad credentials for a while. */
async function expectRefusedCredentials(trial: Trial, request: Call, expected: Expected) {
  const answer = await call(trial, request);
  requireBudget(answer);
  expectAnswer(answer, expected);
  return answer;
}

function requireBudget({ status }: Answer): void {
  if (status === 429) throw new Untried("this address has sent too many bad credentials");
}

function unauthorized(challenge: string) {
  const policy = `"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`;
  const headers = { "WWW-Authenticate": challenge, "RateLimit-Policy": policy };
  return { status: 401, code: "unauthorized", headers };
}

function authorized(Authorization: string): Call {
  return { headers: { Authorization } };
}

function preflightFrom(origin: string): Call {
  const headers = {
    Origin: origin,
    "Access-Control-Request-Method": "DELETE",
    "Access-Control-Request-Headers": "authorization",
  };
  return { method: "OPTIONS", headers };
}

function refusalsIn({ seen }: Trial): readonly Answer[] {
  const refusals = seen.crowd.filter(({ status }) => status === 429);
  if (refusals.length === 0) throw new Untried("no request was refused");
  return refusals;
}

function expectExactness(answers: readonly Answer[]): void {
  const admitted = answers.filter(({ status }) => status !== 429);
  const left = admitted.map(({ windows: [minute] }) => minute?.remaining);
  const fault = `${admitted.length} are admitted, not ${perMinute}`;
  for (const answer of answers) expectThat(answer, admitted.length === perMinute, fault);
  for (const [index, answer] of admitted.entries()) {
    expectAnswer(answer, { status: 304 });
    const isFirst = left.indexOf(left[index]) === index;
    expectThat(answer, isFirst, "two admitted requests have the same X-RateLimit-Remaining");
    const limit = answer.windows[0]?.limit;
    expectThat(answer, limit === perMinute, `the limit is ${limit}, not ${perMinute}`);
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
  return (trial.seen.list ??= await call(trial, { withKey }));
}

async function expectEachCounts(trial: Trial): Promise<void> {
  const unknown = { withKey, path: "/v1/verify" };
  let before = Infinity;
  for (const each of [UNCHANGED, unknown, { withKey, method: "POST" }, unknown]) {
    const answer = await call(trial, each);
    const left = answer.windows[1]?.remaining ?? NaN;
    // Without `revoke`, the operator passed in the key, so another client may use it meanwhile.
    const isAsExpected = trial.revoke ? [Infinity, left + 1].includes(before) : left < before;
    expectThat(answer, isAsExpected, `${left} requests are left in the day after ${before}`);
    before = left;
  }
}

function withOrders(
  title: string,
  test: (trial: Trial, orders: OwnOrders) => Promise<void>,
): ServicePromise {
  return tried(title, ["orders", "key"], async (trial) => {
    if (trial.orders !== undefined) await test(trial, trial.orders);
  });
}

function cancel(trial: Trial, id: bigint): Promise<Answer> {
  return call(trial, { withKey, path: `${LIST}/${id}`, method: "DELETE" });
}
