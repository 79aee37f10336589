import fc from "fast-check";
import { expect, test } from "vitest";
import { readKey } from "../../src/site/script/key-field.ts";
import { OrderList } from "../../src/site/script/order-list.ts";
import { metersAt } from "../../src/site/script/quota.ts";
import type { Outcome } from "../../src/site/script/request.ts";
import { clock, rowStateOf, viewOf } from "../../src/site/script/view.ts";

const DELETE = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;

/** Returns an outcome with an error of the service. */
function errorOf(status: number, code: string): Outcome {
  const head = JSON.stringify({ code, status });
  const common = { request: DELETE, statusText: "", receivedMs: 0, tookMs: 1, longBody: null };
  return { kind: "response", received: { ...common, status, headers: new Headers(), head } };
}

function listOf(...parts: readonly string[]): OrderList {
  const list = new OrderList();
  for (const part of parts) list.read(part);
  return list;
}

test.each([
  [" sord_1\n", "sord_1", false],
  ["Authorization: bearer  sord_1", "sord_1", false],
  ["sord_\u200b1", "", true],
  ["sord_ 1", "", true],
])("of the pasted text %j, the key is %j", (text, key, isWrong) => {
  expect(readKey(text)).toEqual({ key, problem: isWrong ? expect.any(String) : null });
});

test("a list in any parts keeps every digit, counts its orders and finds an id, and no neighbour of it", () => {
  const ids = fc.uniqueArray(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 8 });
  // Braces, ids and escaped quotes inside a string belong to no order.
  const notes = fc.constantFrom("", 'a }], { "id":2 } \\" {', "5}");
  fc.assert(
    fc.property(ids, notes, fc.integer({ min: 1, max: 90 }), (all, note, length) => {
      const near = all.map((id) => id ^ 1n);
      const rest = `"petId":7,"note":${JSON.stringify(note)}`;
      const text = `[${all.map((id) => `{"id":${id},${rest}}`).join()}]`;
      const parts = text.match(new RegExp(`[^]{1,${length}}`, "g")) ?? [];
      const list = listOf(...parts);
      expect(list.isWhole).toBe(true);
      const broken = [text.slice(0, -1), text.slice(1), text.replace("},{", "} {")];
      expect(broken.map((one) => listOf(one).isWhole)).toEqual([false, false, all.length < 2]);
      const shown = (id: bigint) => ({ id: String(id), petId: "7", note });
      expect(list.total).toBe(all.length);
      expect(list.first(3)).toStrictEqual(all.slice(0, 3).map(shown));
      for (const id of [...all, ...near, 2n, 7n]) {
        expect(list.find(String(id))).toStrictEqual(all.includes(id) ? shown(id) : null);
      }
    }),
  );
});

const failure: Outcome = { kind: "failure", request: DELETE, reason: "network" };
const stopped: Outcome = { kind: "stopped", request: DELETE };

test.each([
  [failure, "", "No answer: perhaps cancelled", /may or may not be cancelled/],
  [stopped, "", "No answer: perhaps cancelled", /may or may not be cancelled/],
  [errorOf(404, "order_not_found"), "order_not_found", "Is gone", /./],
  [errorOf(500, "internal_error"), "", "500: perhaps cancelled", /./],
])("a cancellation tells it in the row: %#", (outcome, settled, note, meaning) => {
  expect(rowStateOf(outcome)).toEqual({ settled, note });
  expect(viewOf(outcome, null).meaning).toMatch(meaning);
});

test("the meters show the windows of a quota, and are full again at their end", () => {
  const windows = [
    { name: "minute", limit: 60, remaining: 12, resetsAt: "1970-01-01T00:01:00.000Z" },
    { name: "day", limit: 1_000, remaining: 0, resetsAt: "1970-01-01T22:13:20.000Z" },
  ];
  const quota = { plan: "free", windows, ban: null, retryAfterSeconds: 0 };
  expect(metersAt(quota, 0)).toMatchObject([
    { left: 12, level: "low", figure: "12 of 60", note: "back in 1:00" },
    { left: 0, level: "none", figure: "0 of 1,000", note: "back in 22:13:20" },
  ]);
  expect(metersAt(quota, 59_999)[0]).toMatchObject({ left: 12, note: "back in 0:01" });
  expect(metersAt(quota, 60_000)[0]).toMatchObject({ left: 60, note: "all left" });
  const unopened = { ...windows[0]!, remaining: 60, resetsAt: null };
  expect(metersAt({ ...quota, windows: [unopened] }, 0)[0]).toMatchObject({ note: "all left" });
  expect([59, 725, 86_399].map(clock)).toEqual(["0:59", "12:05", "23:59:59"]);
});
