import type { Answer, Call } from "./caller.ts";
import { generateSecret } from "../key-store/secret.ts";
import { PLAN_LIMITS } from "../../worker/limit-rules/plans.ts";
import {
  expectAnswer,
  expectHeader,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
} from "./service-promise.ts";

const CHALLENGE = 'Bearer realm="store-orders"';
const INVALID_TOKEN = `${CHALLENGE}, error="invalid_token"`;
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
    expectAnswer(answer, 200);
    expectHeader(answer, "Cache-Control", "no-store");
    expectThat(answer, answer.quota === null, "the answer has rate-limit headers");
  },
};

/** The promises to every client, with or without a key (docs/api.md). */
export const OPEN_PROMISES: readonly ServicePromise[] = [
  {
    title: "The reference page and openapi.json need no key",
    test: async ({ caller }) => {
      const page = await caller.call("/", { isStatic: true });
      expectAnswer(page, 200);
      expectThat(
        page,
        /^text\/html\b/.test(page.headers.get("Content-Type") ?? ""),
        "/ is no page",
      );
      const document = await caller.call("/openapi.json", { isStatic: true });
      expectAnswer(document, 200);
      expectThat(
        document,
        /"openapi": ?"3\.1/.test(document.body),
        "it is no OpenAPI 3.1 document",
      );
    },
  },
  {
    title: "A path outside /v1 returns 404",
    test: async ({ caller }) => {
      const answer = await caller.call(`/verify-${crypto.randomUUID()}`);
      expectAnswer(answer, 404, "not_found");
      expectThat(answer, answer.quota === null, "the answer has rate-limit headers");
    },
  },
  refused("Without a key the response is 401", {}, CHALLENGE),
  refused("An empty Authorization header returns 401", { Authorization: "" }, CHALLENGE),
  refused("A scheme other than Bearer returns 401", { Authorization: "Basic YTpi" }, CHALLENGE),
  refused("Bearer without a token returns 401", { Authorization: "Bearer" }, CHALLENGE),
  refused("Two tokens return 401", { Authorization: "Bearer a b" }, INVALID_TOKEN),
  refused("A mistyped key returns 401", { Authorization: "Bearer sord_a" }, INVALID_TOKEN),
  {
    title: "An unknown key returns 401",
    test: async ({ caller }) => {
      const answer = await caller.call(LIST, { key: generateSecret() });
      expectUnauthorized(answer, INVALID_TOKEN);
    },
  },
  {
    title: "A key in the query string or a cookie is ignored",
    needs: ["key"],
    test: async ({ caller, key }) => {
      const query = new URLSearchParams({ key: key ?? "", api_key: key ?? "" });
      const headers = { Cookie: `key=${key}; Authorization=${key}`, "X-API-Key": key ?? "" };
      expectUnauthorized(await caller.call(`${LIST}?${query.toString()}`, { headers }), CHALLENGE);
    },
  },
  {
    title: "An unknown path under /v1 returns 401 without a key",
    test: async ({ caller }) => {
      expectUnauthorized(await caller.call("/v1/verify"), CHALLENGE);
    },
  },
  {
    title: "Scripts of an origin that is not listed may not call",
    test: async ({ caller }) => {
      const preflight = await caller.call(LIST, preflightFrom(FOREIGN_ORIGIN));
      expectUnauthorized(preflight, CHALLENGE);
      expectNothingAllowed(preflight);
      const answer = await caller.call(LIST, { headers: { Origin: FOREIGN_ORIGIN } });
      expectNothingAllowed(answer);
    },
  },
  {
    title: "Scripts of a listed origin may call, and read every documented header",
    needs: ["origin"],
    test: testListedOrigin,
  },
];

function refused(
  title: string,
  headers: Readonly<Record<string, string>>,
  challenge: string,
): ServicePromise {
  const test = async ({ caller }: Trial) =>
    expectUnauthorized(await caller.call(LIST, { headers }), challenge);
  return { title, test };
}

/**
 * Expects a 401 response with this `WWW-Authenticate` challenge. The response's rate-limit headers
 * must show the budget of the client's IP address (docs/limits.md).
 */
function expectUnauthorized(answer: Answer, challenge: string): void {
  expectAnswer(answer, 401, "unauthorized");
  expectHeader(answer, "WWW-Authenticate", challenge);
  const { perMinute, perDay } = PLAN_LIMITS.free;
  const { minute, day } = answer.quota ?? {};
  expectThat(
    answer,
    minute?.limit === perMinute && day?.limit === perDay,
    "the headers do not show the budget of an address",
  );
}

function preflightFrom(origin: string): Call {
  const headers = {
    Origin: origin,
    "Access-Control-Request-Method": "DELETE",
    "Access-Control-Request-Headers": "authorization",
  };
  return { method: "OPTIONS", headers };
}

function expectNothingAllowed(answer: Answer): void {
  for (const name of answer.headers.keys()) {
    expectThat(answer, !name.startsWith("access-control-"), `the answer has ${name}`);
  }
}

async function testListedOrigin({ caller, origin }: Trial): Promise<void> {
  const listed = origin ?? "";
  const preflight = await caller.call(LIST, preflightFrom(listed));
  expectAnswer(preflight, 204);
  expectHeader(preflight, "Access-Control-Allow-Origin", listed);
  expectHeader(preflight, "Access-Control-Max-Age", "86400");
  expectNames(preflight, "Access-Control-Allow-Methods", ["GET", "HEAD", "DELETE"]);
  expectNames(preflight, "Access-Control-Allow-Headers", [
    "Authorization",
    "If-None-Match",
    "X-Request-Id",
  ]);
  const answer = await caller.call(LIST, { headers: { Origin: listed } });
  expectUnauthorized(answer, CHALLENGE);
  expectHeader(answer, "Access-Control-Allow-Origin", listed);
  expectNames(answer, "Access-Control-Expose-Headers", EXPOSED_HEADERS);
}

/** Expects a header that lists exactly these names, in any order and case. */
function expectNames(answer: Answer, name: string, expected: readonly string[]): void {
  const sorted = (names: readonly string[]) =>
    names
      .map((text) => text.trim().toLowerCase())
      .toSorted()
      .join(", ");
  const found = sorted((answer.headers.get(name) ?? "").split(","));
  expectThat(answer, found === sorted(expected), `${name} lists ${found || "nothing"}`);
}
