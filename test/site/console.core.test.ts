import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Answer, curlLine, type Outcome } from "../../src/site/console/answer.ts";
import { readKey } from "../../src/site/console/key.ts";
import { OrderList } from "../../src/site/console/order-list.ts";
import { provokeLimit } from "../../src/site/console/trigger.ts";
import * as view from "../../src/site/console/view.ts";
import { Work, type WorkKind } from "../../src/site/console/work.ts";

const KINDS = ["list", "cancel", "limit", "ban"] as const;

function answer(changes: Partial<Answer>): Answer {
  const request = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;
  return {
    request,
    status: 204,
    statusText: "",
    headers: new Headers(),
    body: "",
    receivedMs: 0,
    tookMs: 1,
    ...changes,
  };
}

function error(status: number, code: string, headers: Record<string, string> = {}): Answer {
  return answer({ status, headers: new Headers(headers), body: JSON.stringify({ code, status }) });
}

describe("what is under way", () => {
  test("of any presses, the newest that could start is shown last, and nothing is sent twice", async () => {
    const press = fc.record({ kind: fc.constantFrom(...KINDS), settles: fc.nat(8) });
    await fc.assert(
      fc.asyncProperty(fc.array(press, { minLength: 1, maxLength: 12 }), async (presses) => {
        const work = new Work(() => {});
        const shown: number[] = [];
        const open: { id: number; kind: WorkKind; end: () => void; signal: AbortSignal }[] = [];
        let newest = -1;
        for (const [id, { kind, settles }] of presses.entries()) {
          const running = open.find(({ signal }) => !signal.aborted);
          const isFree = running?.kind !== kind && running?.kind !== "cancel";
          expect(work.canStart(kind)).toBe(isFree);
          if (isFree) newest = id;
          void work.start(
            kind,
            (signal) =>
              new Promise<number>((end) => open.push({ id, kind, signal, end: () => end(id) })),
            (outcome) => shown.push(outcome),
          );
          expect(open.filter(({ signal }) => !signal.aborted)).toHaveLength(1);
          // Lets an operation end, perhaps one that a newer one has replaced.
          const [ended] = open.splice(settles % (open.length + 1), 1);
          ended?.end();
          await new Promise(setImmediate);
        }
        for (const { end } of open.toReversed()) end();
        await new Promise(setImmediate);
        expect(shown.at(-1)).toBe(newest);
        expect(shown).toStrictEqual(shown.toSorted((a, b) => a - b));
      }),
    );
  });

  test("the page is told what is under way, and a stopped operation still shows its outcome", async () => {
    const seen: unknown[] = [];
    const work = new Work((kind) => seen.push(kind));
    const stopped = (signal: AbortSignal) =>
      new Promise((resolve) => signal.addEventListener("abort", () => resolve("stopped")));
    const started = work.start("cancel", stopped, (outcome) => seen.push(outcome));
    work.stop();
    await started;
    expect(seen).toStrictEqual(["cancel", null, "stopped"]);
  });
});

test.each([
  ...["sord_1", " sord_1\n", "Bearer sord_1", "Authorization: bearer  sord_1"].map(
    (text) => [text, "sord_1", /^null$/] as const,
  ),
  ...["sord_…", "sord_\u200b1", "sord_ 1"].map(
    (text) => [text, "", /^This is no API key(?!.*sord_)[^]*Nothing was sent/] as const,
  ),
  ["", "", /^null$/] as const,
])("of the pasted text %j, the key is %j", (text, key, problem) => {
  const entered = readKey(text);
  expect(entered.key).toBe(key);
  expect(String(entered.problem)).toMatch(problem);
});

test("a list keeps every digit, counts its orders and finds an id, and no neighbour of it", () => {
  const ids = fc.uniqueArray(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 8 });
  // Braces, ids and escaped quotes inside a string belong to no order.
  const notes = fc.constantFrom("", 'a }], { "id":2 } \\" {', "5}");
  fc.assert(
    fc.property(ids, fc.boolean(), notes, (all, isNeighbour, note) => {
      const near = isNeighbour ? all.map((id) => id ^ 1n) : [];
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

describe("what an outcome shows", () => {
  const request = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;
  const failure: Outcome = { kind: "failure", request, reason: "network" };
  const of = (one: Answer): Outcome => ({ kind: "answer", answer: one });

  test.each([
    [failure, "", "No answer: perhaps cancelled", /may or may not be cancelled/],
    [{ kind: "stopped", request }, "", "No answer: perhaps cancelled", /may or may not be/],
    [{ kind: "unsent", problem: "No key." }, "", "Not sent", /^No key\.$/],
    [of(answer({})), "cancelled", "Cancelled", /is cancelled/],
    [of(error(409, "order_already_shipped")), "order_already_shipped", "Has shipped", /./],
    [of(error(404, "order_not_found")), "order_not_found", "Is gone", /./],
    [of(error(401, "unauthorized")), "", "401: not cancelled", /./],
    [of(error(429, "api_key_banned")), "", "429: not cancelled", /refused and not counted/],
    [of(error(500, "internal_error")), "", "500: perhaps cancelled", /./],
  ] as const)("a cancellation tells it in the row: %#", (outcome, settled, note, meaning) => {
    expect(view.rowStateOf(outcome)).toEqual({ settled, note });
    expect(view.viewOf(outcome).meaning).toMatch(meaning);
  });

  test.each([
    [of(answer({ status: 200, body: "[]" })), /^The store has no orders/],
    [of(answer({ status: 200, body: '[{"id":1}]' })), /^Here are the orders/],
    [of(answer({ status: 200, body: '[{"id":1}' })), /broke off/],
    [{ ...failure, request: { ...request, method: "GET" } }, /^(?!.*cancelled)No complete answer/],
  ] as const)("a list tells if it is whole, empty or missing: %#", (outcome, meaning) => {
    expect(view.viewOf(outcome).meaning).toMatch(meaning);
  });

  test.each([
    [2, 1, 2, false, /^1 order\.$/],
    [1_200, 2, 100, false, /^1,198 orders\. The table shows the first 100/],
    [1_200, 2, 1, true, /^1,198 orders\.$/],
    [1_200, 2, 0, true, /^No order in this list has this id/],
  ] as const)(
    "of %d orders, of which %d are gone, tells the count",
    (all, gone, rows, is, text) => {
      expect(view.countText(all, gone, rows, is)).toMatch(text);
    },
  );

  test.each([
    [false, "Limit reached", "The wait is over"],
    [true, "Key banned", "The ban is over"],
  ])("a wait and a ban end with words of their own (ban: %s)", (isBan, before, after) => {
    const wait = { isBan, endMs: 60_000 };
    expect(view.waitAt(wait, 0)).toMatchObject({ title: before, time: "1:00" });
    expect(view.waitAt(wait, 60_000)).toMatchObject({ title: after, look: "over", time: "0:00" });
  });

  test("a request as a curl line is safe in a shell", () => {
    const odd = { ...request, path: "/v1/store/orders/it's", headers: { A: "b" } };
    const line = `curl -i -X DELETE -H 'A: b' 'https://x/v1/store/orders/it'\\''s'`;
    expect(curlLine(odd, "https://x")).toBe(line);
  });
});

describe("the meters", () => {
  const headers = {
    "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    RateLimit: '"minute";r=12;t=60, "day";r=0;t=80000',
  };
  const quotaOf = (status: number, code: string) => view.quotaOf(error(status, code, headers))!;

  test("show the windows of the newest answer, full again at their end, and whose they are", () => {
    const quota = quotaOf(401, "unauthorized");
    expect(quota.subject).toContain("your address");
    expect(quotaOf(404, "order_not_found").subject).toBe("");
    expect(view.metersAt(quota, 0)).toMatchObject([
      { left: 12, level: "low", figure: "12 of 60", note: "back in 60 s" },
      { left: 0, level: "none", figure: "0 of 1,000", note: "back in 22 h 14 min" },
    ]);
    expect(view.metersAt(quota, 60_000)[0]).toMatchObject({ left: 60, note: "full again" });
    expect(view.quotaOf(answer({}))).toBeNull();
  });

  test.each([
    [0, "nothing until the ban ends"],
    [90_000_000, "known after the next answer"],
  ])("claim no figure during a ban, nor after it: %d", (nowMs, note) => {
    const shown = ["– of 60", "– of 1,000"].map((figure) => ({ figure, note }));
    expect(view.metersAt(quotaOf(429, "api_key_banned"), nowMs)).toMatchObject(shown);
  });

  test("write no 60 minutes or seconds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 90_000 }), (seconds) => {
        const written = view.duration(seconds);
        const [, hours, minutes, left] = /^(?:(\d+) h )?(?:(\d+) min)?(?:(\d+) s)?$/.exec(written)!;
        if (hours !== undefined) expect(Number(minutes)).toBeLessThan(60);
        const total = 3_600 * Number(hours ?? 0) + 60 * Number(minutes ?? 0) + Number(left ?? 0);
        expect(total).toBe(seconds < 120 ? seconds : 60 * Math.ceil(seconds / 60));
        const parts = view.clock(seconds).split(":").map(Number);
        expect(parts.reduce((sum, part) => 60 * sum + part)).toBe(seconds);
        expect(Math.max(...parts)).toBeLessThan(60);
      }),
    );
  });
});

test("the first outcome other than 304 ends the parallel requests", async () => {
  const signals: AbortSignal[] = [];
  const request = (signal: AbortSignal) => {
    const isFirst = signals.push(signal) === 1;
    const outcome: Outcome = { kind: "answer", answer: answer({ status: 500 }) };
    return new Promise<Outcome>((resolve) => isFirst && resolve(outcome));
  };
  await provokeLimit({ request, say: () => {}, signal: new AbortController().signal });
  expect(signals.map(({ aborted }) => aborted)).toEqual(Array(6).fill(true));
});
