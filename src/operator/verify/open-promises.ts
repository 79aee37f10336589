import type { Answer, Call } from "./caller.ts";
import { generateSecret } from "../key-store/secret.ts";
import { PLAN_LIMITS } from "../../worker/limit-rules/plans.ts";
import {
  answered,
  expectAnswer,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
} from "./service-promise.ts";

const CHALLENGE = 'Bearer realm="store-orders"';
/** An origin that is in no service's `CORS_ORIGINS`, because RFC 2606 reserves `invalid`. */
const FOREIGN_ORIGIN = "https://verify.invalid";

/**
 * The response headers in docs/api.md and docs/limits.md that scripts in browsers must be able to
 * read.
 */
const EXPOSED_HEADERS = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
  "RateLimit-Policy",
  "RateLimit",
  "Retry-After",
  "Allow",
  "ETag",
  "WWW-Authenticate",
  "X-Request-Id",
  "Link",
  "Deprecation",
  "Sunset",
];

/** The policy of the budget that failed authentications of an address have (docs/limits.md). */
const { perMinute, perDay } = PLAN_LIMITS.free;
const ADDRESS_POLICY = `"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`;

const NO_KEY = unauthorized(CHALLENGE);
const INVALID_KEY = unauthorized(`${CHALLENGE}, error="invalid_token"`);
const NO_QUOTA = { RateLimit: null, "X-RateLimit-Limit": null };

/** The promise that a monitor relies on (docs/api.md, Health). */
export const HEALTH_PROMISE: ServicePromise = {
  title: "GET /healthz reports that every part responds, and nothing else",
  test: async ({ caller }) => {
    const answer = await caller.call("/healthz");
    expectThat(
      answer,
      answer.body === JSON.stringify({ orders: "ok", keys: "ok", limiter: "ok" }),
      `the answer is ${answer.status} ${answer.body.slice(0, 200)}`,
    );
    expectAnswer(answer, { status: 200, headers: { "Cache-Control": "no-store", ...NO_QUOTA } });
  },
};

/** The promises to every client, with or without a key (docs/api.md). */
export const OPEN_PROMISES: readonly ServicePromise[] = [
  answered("The reference page needs no key", [{ path: "/", isStatic: true }], {
    status: 200,
    headers: { "Content-Type": "text/html; charset=utf-8" },
  }),
  answered("openapi.json needs no key", [{ path: "/openapi.json", isStatic: true }], {
    status: 200,
    body: '"openapi": "3.1',
  }),
  answered("A path outside /v1 returns 404", [{ path: `/verify-${crypto.randomUUID()}` }], {
    status: 404,
    code: "not_found",
    headers: NO_QUOTA,
  }),
  answered("Without a key the response is 401", [{}], NO_KEY),
  answered("An empty Authorization header returns 401", [authorized("")], NO_KEY),
  answered("A scheme other than Bearer returns 401", [authorized("Basic YTpi")], NO_KEY),
  answered("Bearer without a token returns 401", [authorized("Bearer")], NO_KEY),
  answered("Two tokens return 401", [authorized("Bearer a b")], INVALID_KEY),
  answered("A mistyped key returns 401", [authorized("Bearer sord_a")], INVALID_KEY),
  answered("An unknown key returns 401", [{ key: generateSecret() }], INVALID_KEY),
  {
    title: "A key in the query string or a cookie is ignored",
    needs: ["key"],
    test: async ({ caller, key = "" }) => {
      const query = new URLSearchParams({ key, api_key: key });
      const headers = { Cookie: `key=${key}; Authorization=${key}`, "X-API-Key": key };
      expectAnswer(await caller.call(`${LIST}?${query.toString()}`, { headers }), NO_KEY);
    },
  },
  answered("An unknown path under /v1 returns 401 without a key", [{ path: "/v1/verify" }], NO_KEY),
  {
    title: "Scripts of an origin that is not listed may not call",
    test: async ({ caller }) => {
      const call = { headers: { Origin: FOREIGN_ORIGIN } };
      for (const request of [preflightFrom(FOREIGN_ORIGIN), call]) {
        const answer = await caller.call(LIST, request);
        expectAnswer(answer, NO_KEY);
        const allowed = [...answer.headers.keys()].find((name) =>
          name.startsWith("access-control-"),
        );
        expectThat(answer, allowed === undefined, `the answer has ${allowed}`);
      }
    },
  },
  {
    title: "Scripts of a listed origin may call, and read every documented header",
    needs: ["origin"],
    test: testListedOrigin,
  },
];

function unauthorized(challenge: string) {
  const headers = { "WWW-Authenticate": challenge, "RateLimit-Policy": ADDRESS_POLICY };
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

async function testListedOrigin({ caller, origin = "" }: Trial): Promise<void> {
  const allowed = { "Access-Control-Allow-Origin": origin };
  const preflight = await caller.call(LIST, preflightFrom(origin));
  expectAnswer(preflight, {
    status: 204,
    headers: { ...allowed, "Access-Control-Max-Age": "86400" },
  });
  expectNames(preflight, "Access-Control-Allow-Methods", ["GET", "HEAD", "DELETE"]);
  expectNames(preflight, "Access-Control-Allow-Headers", [
    "Authorization",
    "If-None-Match",
    "X-Request-Id",
  ]);
  const answer = await caller.call(LIST, { headers: { Origin: origin } });
  expectAnswer(answer, { ...NO_KEY, headers: { ...NO_KEY.headers, ...allowed } });
  expectNames(answer, "Access-Control-Expose-Headers", EXPOSED_HEADERS);
}

/** Expects a header that lists exactly these names, in any order and case. */
function expectNames(answer: Answer, name: string, expected: readonly string[]): void {
  const sorted = (names: string) => names.toLowerCase().split(/, */).toSorted().join(", ");
  const found = sorted(answer.headers.get(name) ?? "");
  expectThat(answer, found === sorted(expected.join()), `${name} lists ${found || "nothing"}`);
}
