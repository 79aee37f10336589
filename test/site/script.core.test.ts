import fc from "fast-check";
import { expect, onTestFinished, test, vi } from "vitest";
import { readKey } from "../../src/site/script/key-field.ts";
import { OrderList } from "../../src/site/script/order-list.ts";
import { metersAt } from "../../src/site/script/quota.ts";
import { type Outcome, type Received, send } from "../../src/site/script/request.ts";
import { provokeBan } from "../../src/site/script/trigger.ts";
import * as view from "../../src/site/script/view.ts";

const DELETE = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;

/** Returns an outcome with the service's answer. Its body is an error with `code`, if there is one. */
function outcomeOf(status: number, code?: string, changes: Partial<Received> = {}): Outcome {
  const head = code === undefined ? "" : JSON.stringify({ code, status });
  const common = { request: DELETE, statusText: "", receivedMs: 0, tookMs: 1, longBody: null };
  return {
    kind: "response",
    received: { ...common, status, headers: new Headers(), head, ...changes },
  };
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
      expect(listOf(text.slice(0, -1)).isWhole).toBe(false);
      const shown = (id: bigint) => ({ id: String(id), petId: "7", note });
      expect(list.total).toBe(all.length);
      expect(list.first(3)).toStrictEqual(all.slice(0, 3).map(shown));
      for (const id of [...all, ...near, 2n, 7n]) {
        expect(list.find(String(id))).toStrictEqual(all.includes(id) ? shown(id) : null);
      }
    }),
  );
});

test.each([
  [0, 0, 0, false, "The store has no orders."],
  [2, 1, 2, false, "1 order."],
  [1, 1, 1, false, "0 orders."],
  [100, 0, 100, false, "100 orders."],
  [1_234, 1, 100, false, "1,233 orders. Here are the first 100; find others by id."],
  [1_234, 1, 1, true, "1,233 orders."],
  [1_234, 0, 0, true, "No order in this list has this id. 1,234 orders."],
] as const)("above %d orders without %d in %d rows (of a search: %s) stands %j", (...row) => {
  const [total, gone, rows, isFinding, words] = row;
  expect(view.countText(total, gone, rows, isFinding)).toBe(words);
});

const failure: Outcome = { kind: "failure", request: DELETE, reason: "network" };

test.each([
  [failure, "", "No answer: perhaps cancelled", /may or may not be cancelled/],
  [{ kind: "stopped", request: DELETE }, "", "No answer: perhaps cancelled", /may or may not/],
  [{ kind: "unsent", problem: "No id." }, "", "Not sent", /^No id\.$/],
  [outcomeOf(204), "cancelled", "Cancelled", /^The order is cancelled\. The next list lacks it\.$/],
  [outcomeOf(409, "order_already_shipped"), "order_already_shipped", "Has shipped", /./],
  [outcomeOf(404, "order_not_found"), "order_not_found", "Is gone", /./],
  [outcomeOf(429, "api_key_banned"), "", "429: not cancelled", /during the ban change nothing\.$/],
  [
    outcomeOf(429, "other"),
    "",
    "429: not cancelled",
    /refused and not counted\. Keep sending, and/,
  ],
  [outcomeOf(304), "", "304: not cancelled", /has not changed\. The request still counts\.$/],
  [outcomeOf(500, "internal_error"), "", "500: perhaps cancelled", /./],
] as const)("a cancellation tells it in the row: %#", (outcome, settled, note, meaning) => {
  expect(view.rowStateOf(outcome)).toEqual({ settled, note });
  expect(view.viewOf(outcome, null).meaning).toMatch(meaning);
});

test("a list that was not received changes nothing, and an answer has its status, request and time", () => {
  const GET = { method: "GET", path: "/v1/quota", headers: {} };
  const stopped = view.viewOf({ kind: "stopped", request: GET }, null);
  expect(stopped).toMatchObject({ isGood: false, line: ["Stopped", "GET /v1/quota"] });
  expect(stopped.meaning).toBe("Nobody waits for the answer.");
  const lost = view.viewOf({ ...failure, request: GET }, null);
  expect(lost.line).toEqual(["No answer", "GET /v1/quota"]);
  expect(lost.meaning).toBe("No complete answer came (network). Is the service running?");
  const took = { statusText: "OK", tookMs: 1_234.5 };
  const line = ["200 OK", "DELETE /v1/store/orders/1", "1,235 ms"];
  expect(view.viewOf(outcomeOf(200, undefined, took), null).line).toEqual(line);
});

const limited = outcomeOf(429, "rate_limit_exceeded");
const banned = outcomeOf(429, "api_key_banned");
const revoked = outcomeOf(401, "unauthorized");
test.each([
  ["a ban", [outcomeOf(304), outcomeOf(304), limited, limited, limited, banned], banned],
  ["a bad key", [revoked, limited], revoked],
  ["a key revoked meanwhile", [limited, revoked], revoked],
  ["a new window", [limited, outcomeOf(304)], { kind: "unsent", problem: /new window/ }],
] as const)("the provocation of a ban ends with %s", async (_, outcomes, end) => {
  const said: string[] = [];
  let sent = 0;
  const request = async () => outcomes[Math.min(sent++, outcomes.length - 1)]!;
  const say = (text: string) => void said.push(text);
  const { signal } = new AbortController();
  const last = await provokeBan({ request, say, signal }, 1);
  expect(last).toMatchObject(
    "problem" in end ? { problem: expect.stringMatching(end.problem) } : end,
  );
  const counted = said.filter((text) => /^\d/.test(text)).map((text) => parseInt(text, 10));
  expect(counted[0] ?? 1).toBe(1);
});

test.each([20_000, 20_001])("of a body of %d characters, the page shows 20,000", async (length) => {
  const text = "é".repeat(length);
  const bytes = new TextEncoder().encode(text);
  const body = new ReadableStream({
    start(controller) {
      for (const part of [bytes.subarray(0, 3), bytes.subarray(3)]) controller.enqueue(part);
      controller.close();
    },
  });
  const answer = new Response(body, { status: 500 });
  vi.spyOn(globalThis, "fetch").mockResolvedValue(answer);
  onTestFinished(() => void vi.restoreAllMocks());
  const outcome = await send("k", DELETE, new AbortController().signal);
  const { head, longBody } = (outcome as { readonly received: Received }).received;
  expect(head).toBe(text.slice(0, 20_000));
  expect(await longBody?.text()).toBe(length > 20_000 ? text : undefined);
});

test.each([
  ["[]", true],
  ['[{"id":1}]', true],
  ['[{"id":1}', false],
  ['[{"id":1},{"id":2', false],
  ['{"id":1}]', false],
  ['[{"id":1} {"id":2}]', false],
  ["", false],
])("the list %s is a success only if it is whole", (text, isWhole) => {
  const shown = view.viewOf(outcomeOf(200), listOf(text));
  expect(shown.isGood).toBe(isWhole);
  expect(shown.meaning).toMatch(isWhole ? /^$/ : /broke off/);
});

test.each([200, 503, 429])("a %d says when it can be repeated, if it is an error", (status) => {
  const headers = new Headers({ "Retry-After": "5" });
  const { waitEndMs } = view.viewOf(outcomeOf(status, undefined, { headers }), null);
  expect(waitEndMs).toBe(status === 200 ? null : 5_000);
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
  expect([59, 725, 86_399].map(view.clock)).toEqual(["0:59", "12:05", "23:59:59"]);
});

test("100,000 orders are read in parts, between which the page can do something else, and found faster than read", async () => {
  const orders = Array.from({ length: 100_000 }, (_, index) => {
    return `{"id":${2n ** 53n + BigInt(index)},"petId":${index},"shipDate":"2026-12-01T09:00:00.000Z"}`;
  });
  vi.spyOn(globalThis, "fetch").mockResolvedValue(new Response(`[${orders.join()}]`));
  // On this clock each step takes longer than a task of the page may.
  let [clockMs, turn] = [0, 0];
  vi.spyOn(performance, "now").mockImplementation(() => (clockMs += 1_000));
  const turns = setInterval(() => (turn += 1));
  onTestFinished(() => {
    clearInterval(turns);
    vi.restoreAllMocks();
  });
  const list = new OrderList();
  const turnsOfParts: number[] = [];
  const { signal } = new AbortController();
  const start = process.cpuUsage();
  await send("", { method: "GET", path: "/v1/store/orders" }, signal, (text) => {
    expect(text.length).toBeLessThanOrEqual(2 ** 17);
    turnsOfParts.push(turn);
    list.read(text);
  });
  const reading = process.cpuUsage(start);
  expect(list).toMatchObject({ isWhole: true, total: 100_000 });
  // After the last part follows an empty one.
  expect(new Set(turnsOfParts).size).toBeGreaterThanOrEqual(turnsOfParts.length - 1);
  for (const id of [String(2n ** 53n + 99_999n), "9", "90"]) list.find(id);
  const all = process.cpuUsage(start);
  expect(all.user).toBeLessThan(10 * reading.user);
});
