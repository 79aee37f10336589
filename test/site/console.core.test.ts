import fc from "fast-check";
import { expect, test } from "vitest";
import { type Answer, curlLine, type Outcome } from "../../src/site/console/answer.ts";
import { readKey } from "../../src/site/console/key.ts";
import { OrderList } from "../../src/site/console/order-list.ts";
import * as view from "../../src/site/console/view.ts";
import { Work, type WorkKind } from "../../src/site/console/work.ts";

const DELETE = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;

/** Returns the service's answer to a request. Its body is an error with `code`, if there is one. */
function answer(status: number, code?: string, changes: Partial<Answer> = {}): Answer {
  const body = code === undefined ? "" : JSON.stringify({ code, status });
  const headers = new Headers();
  const common = { request: DELETE, statusText: "", receivedMs: 0, tookMs: 1 };
  return { ...common, status, headers, body, ...changes };
}

function outcomeOf(...parts: Parameters<typeof answer>): Outcome {
  return { kind: "answer", answer: answer(...parts) };
}

test("of any presses, the newest that could start is shown last, and nothing is sent twice", async () => {
  const kind = fc.constantFrom<WorkKind[]>("list", "cancel", "limit", "ban");
  const press = fc.record({ kind, settles: fc.nat(8) });
  await fc.assert(
    fc.asyncProperty(fc.array(press, { minLength: 1, maxLength: 12 }), async (presses) => {
      const work = new Work(() => {});
      const shown: number[] = [];
      const open: { kind: WorkKind; end: () => void; signal: AbortSignal }[] = [];
      let newest = -1;
      for (const [id, { kind: pressed, settles }] of presses.entries()) {
        const running = open.find(({ signal }) => !signal.aborted);
        const isFree = running?.kind !== pressed && running?.kind !== "cancel";
        expect(work.canStart(pressed)).toBe(isFree);
        if (isFree) newest = id;
        void work.start(
          pressed,
          (signal) =>
            new Promise<number>((end) => open.push({ kind: pressed, signal, end: () => end(id) })),
          (outcome) => shown.push(outcome),
        );
        expect(open.filter(({ signal }) => !signal.aborted)).toHaveLength(1);
        // Lets an operation end, perhaps one that a newer one has replaced.
        open.splice(settles % (open.length + 1), 1)[0]?.end();
        await new Promise(setImmediate);
      }
      for (const { end } of open.toReversed()) end();
      await new Promise(setImmediate);
      expect(shown.at(-1)).toBe(newest);
      expect(shown).toStrictEqual(shown.toSorted((a, b) => a - b));
    }),
  );
});

test.each([
  [" sord_1\n", "sord_1", false],
  ["Authorization: bearer  sord_1", "sord_1", false],
  ["sord_\u200b1", "", true],
  ["sord_ 1", "", true],
])("of the pasted text %j, the key is %j", (text, key, isWrong) => {
  expect(readKey(text)).toEqual({ key, problem: isWrong ? expect.any(String) : null });
});

test("a list keeps every digit, counts its orders and finds an id, and no neighbour of it", () => {
  const ids = fc.uniqueArray(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 8 });
  // Braces, ids and escaped quotes inside a string belong to no order.
  const notes = fc.constantFrom("", 'a }], { "id":2 } \\" {', "5}");
  fc.assert(
    fc.property(ids, notes, (all, note) => {
      const near = all.map((id) => id ^ 1n);
      const rest = `"petId":7,"note":${JSON.stringify(note)}`;
      const list = new OrderList(`[${all.map((id) => `{"id":${id},${rest}}`).join()}]`);
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

test.each([
  [failure, "", "No answer: perhaps cancelled", /may or may not be cancelled/],
  [{ kind: "stopped", request: DELETE }, "", "No answer: perhaps cancelled", /may or may not/],
  [outcomeOf(204), "cancelled", "Cancelled", /is cancelled/],
  [outcomeOf(409, "order_already_shipped"), "order_already_shipped", "Has shipped", /./],
  [outcomeOf(404, "order_not_found"), "order_not_found", "Is gone", /./],
  [outcomeOf(429, "api_key_banned"), "", "429: not cancelled", /refused and not counted/],
  [outcomeOf(500, "internal_error"), "", "500: perhaps cancelled", /./],
] as const)("a cancellation tells it in the row: %#", (outcome, settled, note, meaning) => {
  expect(view.rowStateOf(outcome)).toEqual({ settled, note });
  expect(view.viewOf(outcome).meaning).toMatch(meaning);
});

test.each([
  ["[]", /^The store has no orders/],
  ['[{"id":1}]', /^Here are the orders/],
  ['[{"id":1}', /broke off/],
])("the list %s tells if it is whole and empty", (body, meaning) => {
  expect(view.viewOf(outcomeOf(200, undefined, { body })).meaning).toMatch(meaning);
});

test("a request as a curl line is safe in a shell", () => {
  const odd = { ...DELETE, path: "/v1/store/orders/it's", headers: { A: "b" } };
  const line = `curl -i -X DELETE -H 'A: b' 'https://x/v1/store/orders/it'\\''s'`;
  expect(curlLine(odd, "https://x")).toBe(line);
});

test("the meters show the windows of an answer, and are full again at their end", () => {
  const headers = new Headers({
    "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    RateLimit: '"minute";r=12;t=60, "day";r=0;t=80000',
  });
  const quota = view.quotaOf(answer(404, "order_not_found", { headers }))!;
  expect(view.metersAt(quota, 0)).toMatchObject([
    { left: 12, level: "low", figure: "12 of 60", note: "back in 60 s" },
    { left: 0, level: "none", figure: "0 of 1,000", note: "back in 22 h 14 min" },
  ]);
  expect(view.metersAt(quota, 59_999)[0]).toMatchObject({ left: 12, note: "back in 1 s" });
  expect(view.metersAt(quota, 60_000)[0]).toMatchObject({ left: 60, note: "full again" });
  expect([59, 725, 86_399].map(view.clock)).toEqual(["0:59", "12:05", "23:59:59"]);
});
