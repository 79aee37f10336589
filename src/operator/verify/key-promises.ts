import { INT64_MAX, INT64_MIN } from "../../worker/orders/int64.ts";
import type { Answer } from "./caller.ts";
import {
  callWithKey,
  expectAnswer,
  expectHeader,
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
const INTEGER_FIELD = /"(?:id|petId|quantity)":(?<digits>[^,}]*)/g;

/** The promises to a client with a key (docs/api.md). Trying these promises changes no order. */
export const KEY_PROMISES: readonly ServicePromise[] = [
  withKey("The list is one JSON array, in ascending id", async (trial) => {
    const answer = await readList(trial);
    expectAnswer(answer, 200);
    const ids = [...answer.body.matchAll(/\{"id":(-?\d+)/g)].map(([, id]) => BigInt(id ?? ""));
    const isAscending = ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id));
    expectThat(answer, isAscending, "the ids do not ascend");
  }),
  withKey("Integers are int64 in plain decimals", async (trial) => {
    const answer = await readList(trial);
    for (const { groups } of answer.body.matchAll(INTEGER_FIELD)) {
      const digits = groups?.["digits"] ?? "";
      expectThat(answer, isInt64(digits), `the list has the integer ${digits}`);
    }
  }),
  withKey("If-None-Match with the list's ETag returns 304", async (trial) => {
    const tag = (await readList(trial)).headers.get("ETag") ?? "";
    for (const condition of [tag, `"other", W/${tag}`, "*"]) {
      const answer = await callWithKey(trial, LIST, { headers: { "If-None-Match": condition } });
      expectAnswer(answer, 304);
      expectHeader(answer, "Content-Type", null);
    }
  }),
  withKey("If-None-Match with another tag returns 200", async (trial) => {
    const headers = { "If-None-Match": '"other"' };
    expectAnswer(await callWithKey(trial, LIST, { method: "HEAD", headers }), 200);
  }),
  withKey("HEAD returns the response of GET without the body", async (trial) => {
    const get = await readList(trial);
    const head = await callWithKey(trial, LIST, { method: "HEAD" });
    expectAnswer(head, 200);
    expectHeader(head, "Content-Type", get.headers.get("Content-Type"));
  }),
  withKey("Query parameters are ignored", async (trial) => {
    const headers = { "If-None-Match": "*" };
    expectAnswer(await callWithKey(trial, `${LIST}?limit=1&page=2`, { headers }), 304);
  }),
  withKey("The scheme's name is case-insensitive", async ({ caller, key }) => {
    const headers = { Authorization: `bEARER ${key}`, "If-None-Match": "*" };
    expectAnswer(await caller.call(LIST, { headers }), 304);
  }),
  withKey("The response to a request without X-Request-Id has a new id", async (trial) => {
    const answer = await callWithKey(trial, `${LIST}/`, { sendsId: false });
    const isUuid = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/.test(
      answer.headers.get("X-Request-Id") ?? "",
    );
    expectThat(answer, isUuid, "X-Request-Id is no UUID");
  }),
  withKey("An unknown path, or a path with a trailing slash, returns 404", async (trial) => {
    for (const path of ["/v1/verify", `${LIST}/`]) {
      expectAnswer(await callWithKey(trial, path), 404, "not_found");
    }
  }),
  withKey("An orderId that is no int64 returns 404", async (trial) => {
    for (const id of NO_ORDER_IDS) {
      const answer = await callWithKey(trial, `${LIST}/${id}`, { method: "DELETE" });
      expectAnswer(answer, 404, "order_not_found");
      expectThat(answer, answer.body.includes("int64"), "the message does not expect an int64");
    }
  }),
  withKey("Any other method returns 405 with Allow", async (trial) => {
    const orders = await callWithKey(trial, LIST, { method: "POST" });
    expectAnswer(orders, 405, "method_not_allowed");
    expectHeader(orders, "Allow", "GET, HEAD");
    const order = await callWithKey(trial, `${LIST}/1`, { method: "HEAD" });
    expectAnswer(order, 405);
    expectHeader(order, "Allow", "DELETE");
  }),
  withKey("Each request counts once, also if the response is 304, 404 or 405", expectEachCounts),
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
      const answer = await callWithKey(trial, LIST, { headers: { "If-None-Match": "*" } });
      if (answer.status === 401) return expectAnswer(answer, 401, "unauthorized");
      expectThat(
        answer,
        !isLate,
        `a request with the key returns ${answer.status} after 30 seconds`,
      );
      await clock.wait(Math.min(PAUSE_MS, endMs - clock.now()), signal);
    }
  },
};

function withKey(title: string, test: ServicePromise["test"]): ServicePromise {
  return { title, needs: ["key"], test };
}

/** Returns the beginning of the list of orders, which is requested only once. */
async function readList(trial: Trial): Promise<Answer> {
  trial.seen.list ??= await callWithKey(trial, LIST);
  return trial.seen.list;
}

async function expectEachCounts(trial: Trial): Promise<void> {
  const calls = [
    () => callWithKey(trial, LIST, { headers: { "If-None-Match": "*" } }),
    () => callWithKey(trial, "/v1/verify"),
    () => callWithKey(trial, LIST, { method: "POST" }),
    () => callWithKey(trial, "/v1/verify"),
  ];
  let before: Answer | undefined;
  for (const call of calls) {
    const answer = await call();
    const left = answer.quota?.day.remaining ?? NaN;
    const expected = (before?.quota?.day.remaining ?? left + 1) - 1;
    // Another client may use a key that the operator passed in, so more than one request may be
    // counted. For a new key, the response must count exactly one request.
    const isAsExpected = trial.isKeyNew ? left === expected : left <= expected;
    expectThat(answer, isAsExpected, `${left} requests are left in the day, not ${expected}`);
    before = answer;
  }
}

function isInt64(digits: string): boolean {
  if (!/^(?:0|-?[1-9]\d{0,18})$/.test(digits)) return false;
  const value = BigInt(digits);
  return value >= INT64_MIN && value <= INT64_MAX;
}
