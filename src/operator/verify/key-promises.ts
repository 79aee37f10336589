import { z } from "zod";
import { INT64_MAX, INT64_MIN } from "../../worker/orders/int64.ts";
import type { Answer, Call } from "./caller.ts";
import {
  answered,
  callWithKey,
  expectAnswer,
  expectThat,
  LIST,
  type ServicePromise,
  type Trial,
} from "./service-promise.ts";

/** Values of `orderId` that are not a plain decimal int64, so cancelling them changes nothing. */
const NO_ORDER_IDS = ["abc", "1.5", "007", "+5", "-0", "9223372036854775808"];
/** The time within which a revocation takes effect (docs/api.md, Authentication). */
const EFFECTIVE_MS = 30_000;
const PAUSE_MS = 1_000;
const INTEGER_FIELD = /"(?:id|petId|quantity)":([^,}]*)/g;

const withKey = true;
const ANY = { "If-None-Match": "*" };
const NOT_FOUND = { status: 404, code: "not_found" };

/** The promises to a client with a key (docs/api.md). Trying these promises changes no order. */
export const KEY_PROMISES: readonly ServicePromise[] = [
  {
    title: "The list is one JSON array, in ascending id",
    needs: ["key"],
    test: async (trial) => {
      const answer = await readList(trial);
      expectAnswer(answer, { status: 200 });
      const ids = [...answer.body.matchAll(/\{"id":(-?\d+)/g)].map(([, id]) => BigInt(id ?? ""));
      const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id));
      expectThat(answer, isAscending, "the ids do not ascend");
    },
  },
  {
    title: "Integers are int64 in plain decimals",
    needs: ["key"],
    test: async (trial) => {
      const answer = await readList(trial);
      for (const [, digits = ""] of answer.body.matchAll(INTEGER_FIELD)) {
        expectThat(answer, isInt64(digits), `the list has the integer ${digits}`);
      }
    },
  },
  {
    title: "If-None-Match with the list's ETag returns 304",
    needs: ["key"],
    test: async (trial) => {
      const tag = (await readList(trial)).headers.get("ETag") ?? "";
      for (const condition of [tag, `"other", W/${tag}`, "*"]) {
        const answer = await callWithKey(trial, LIST, { headers: { "If-None-Match": condition } });
        expectAnswer(answer, { status: 304, headers: { "Content-Type": null } });
      }
    },
  },
  answered(
    "If-None-Match with another tag returns 200",
    [{ withKey, method: "HEAD", headers: { "If-None-Match": '"other"' } }],
    { status: 200 },
  ),
  answered(
    "HEAD returns the response of GET without the body",
    [{ withKey, method: "HEAD" }],
    // The caller expects the headers of the document, and no body.
    { status: 200, headers: { "Content-Type": "application/json" } },
  ),
  answered(
    "Query parameters are ignored",
    [{ withKey, path: `${LIST}?limit=1&page=2`, headers: ANY }],
    { status: 304 },
  ),
  {
    title: "The scheme's name is case-insensitive",
    needs: ["key"],
    test: async ({ caller, key }) => {
      const headers = { Authorization: `bEARER ${key}`, ...ANY };
      expectAnswer(await caller.call(LIST, { headers }), { status: 304 });
    },
  },
  {
    title: "The response to a request without X-Request-Id has a new id",
    needs: ["key"],
    test: async (trial) => {
      const answer = await callWithKey(trial, `${LIST}/`, { sendsId: false });
      const isUuid = z.uuid().safeParse(answer.headers.get("X-Request-Id")).success;
      expectThat(answer, isUuid, "X-Request-Id is no UUID");
    },
  },
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
  {
    title: "Each request counts once, also if the response is 304, 404 or 405",
    needs: ["key"],
    test: expectEachCounts,
  },
];

/** The promise about revocation. Must be tried last, because trying it makes the key unusable. */
export const REVOCATION_PROMISE: ServicePromise = {
  title: "A revoked key stops working within 30 seconds, also while it is used",
  needs: ["revoke", "key"],
  test: async (trial) => {
    const { clock, signal, revoke } = trial;
    await revoke?.();
    const endMs = clock.now() + EFFECTIVE_MS;
    for (;;) {
      const isLate = clock.now() >= endMs;
      const answer = await callWithKey(trial, LIST, { headers: ANY });
      if (answer.status === 401) return;
      expectThat(
        answer,
        !isLate,
        `a request with the key returns ${answer.status} after 30 seconds`,
      );
      await clock.wait(Math.min(PAUSE_MS, endMs - clock.now()), signal);
    }
  },
};

/** Returns the beginning of the list of orders, which is requested only once. */
async function readList(trial: Trial): Promise<Answer> {
  trial.seen.list ??= await callWithKey(trial, LIST);
  return trial.seen.list;
}

async function expectEachCounts(trial: Trial): Promise<void> {
  const calls: readonly [path: string, call: Call][] = [
    [LIST, { headers: ANY }],
    ["/v1/verify", {}],
    [LIST, { method: "POST" }],
    ["/v1/verify", {}],
  ];
  let before = Infinity;
  for (const [path, call] of calls) {
    const answer = await callWithKey(trial, path, call);
    const left = answer.quota?.day.remaining ?? NaN;
    // Another client may use a key that the operator passed in.
    const isAsExpected = trial.revoke ? [Infinity, left + 1].includes(before) : left < before;
    expectThat(answer, isAsExpected, `${left} requests are left in the day after ${before}`);
    before = left;
  }
}

function isInt64(digits: string): boolean {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(digits)) return false;
  const value = BigInt(digits);
  return value >= INT64_MIN && value <= INT64_MAX;
}
