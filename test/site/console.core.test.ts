import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Answer, Outcome } from "../../src/site/console/answer.ts";
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

test("a key is cut out of what was pasted, and other text is called no key", () => {
  for (const pasted of ["sord_1", " sord_1\n", "Bearer sord_1", "Authorization: bearer  sord_1"]) {
    expect(readKey(pasted)).toStrictEqual({ key: "sord_1", problem: null });
  }
  for (const wrong of ["sord_…", "sord_\u200b1", "sord_ 1"]) {
    const { key, problem } = readKey(wrong);
    expect(key).toBe("");
    expect(problem).toMatch(/^This is no API key[^]*Nothing was sent/);
    expect(problem).not.toContain("sord_");
  }
  expect(readKey("")).toStrictEqual({ key: "", problem: null });
});

test("a list keeps every digit, counts its orders and finds an id, and no neighbour of it", () => {
  const ids = fc.uniqueArray(fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n), { maxLength: 8 });
  fc.assert(
    fc.property(ids, fc.boolean(), (all, isNeighbour) => {
      const near = isNeighbour ? all.map((id) => id ^ 1n) : [];
      const text = `[${all.map((id) => `{"id":${id},"petId":${id ^ 1n}}`).join()}]`;
      const list = new OrderList(text);
      expect(list.total).toBe(all.length);
      expect(list.first(3).map(({ id }) => String(id))).toStrictEqual(all.slice(0, 3).map(String));
      for (const id of [...all, ...near]) {
        const found = list.find(String(id));
        expect(found === null ? null : String(found["id"])).toBe(
          all.includes(id) ? String(id) : null,
        );
      }
    }),
  );
  const [one] = new OrderList('[{"id":9007199254740993}]').first(1);
  expect(String(one?.["id"])).toBe("9007199254740993");
  expect(new OrderList("[]").find("1")).toBeNull();
  // Braces, ids and escaped quotes inside a string belong to no order.
  const note = 'a }], { "id":2 } \\\\" {';
  const noted = new OrderList(
    JSON.stringify([
      { id: 1, note },
      { id: 3, note },
    ]),
  );
  expect(noted.total).toBe(2);
  expect(noted.first(2)).toStrictEqual(["1", "3"].map((id) => ({ id, note })));
  expect(noted.find("2")).toBeNull();
  expect(noted.find("3")).toStrictEqual({ id: "3", note });
});

describe("what an outcome shows", () => {
  const request = { method: "DELETE", path: "/v1/store/orders/1", headers: {} } as const;
  const failure: Outcome = { kind: "failure", request, reason: "network" };

  test("a cancellation without an answer says that the order may be cancelled", () => {
    for (const outcome of [failure, { kind: "stopped", request }] as const) {
      expect(view.viewOf(outcome).meaning).toContain("may or may not be cancelled");
      expect(view.rowStateOf(outcome)).toEqual({
        settled: "",
        note: "No answer: perhaps cancelled",
      });
    }
    const list: Outcome = { ...failure, request: { ...request, method: "GET" } };
    expect(view.viewOf(list).meaning).not.toContain("cancelled");
  });

  test.each([
    [answer({}), "cancelled", "Cancelled"],
    [error(409, "order_already_shipped"), "order_already_shipped", "Has shipped"],
    [error(404, "order_not_found"), "order_not_found", "Is gone"],
    [error(401, "unauthorized"), "", "401: not cancelled"],
    [error(429, "api_key_banned"), "", "429: not cancelled"],
    [error(500, "internal_error"), "", "500: perhaps cancelled"],
  ])("the row of the order tells it: %#", (one, settled, note) => {
    expect(view.rowStateOf({ kind: "answer", answer: one })).toEqual({ settled, note });
  });

  test("an empty store has no orders, and the count follows cancellations", () => {
    const empty = answer({ status: 200, body: "[]" });
    expect(view.viewOf({ kind: "answer", answer: empty }).meaning).toBe("The store has no orders.");
    const cut = answer({ status: 200, body: '[{"id":1}' });
    expect(view.viewOf({ kind: "answer", answer: cut }).meaning).toContain("broke off");
    expect(view.countText(2, 1, 2, false)).toBe("1 order.");
    expect(view.countText(1_200, 2, 100, false)).toMatch(
      /^1,198 orders\. The table shows the first 100/,
    );
    expect(view.countText(1_200, 2, 1, true)).toBe("1,198 orders.");
    expect(view.countText(1_200, 2, 0, true)).toMatch(/^No order in this list has this id/);
  });

  test("a wait and a ban end with words of their own", () => {
    for (const [isBan, before, after] of [
      [false, "Limit reached", "The wait is over"],
      [true, "Key banned", "The ban is over"],
    ] as const) {
      const wait = { isBan, endMs: 60_000 };
      expect(view.waitAt(wait, 0)).toMatchObject({ title: before, time: "1:00" });
      expect(view.waitAt(wait, 60_000)).toMatchObject({ title: after, look: "over", time: "0:00" });
    }
  });
});

describe("the meters", () => {
  const headers = {
    "RateLimit-Policy": '"minute";q=60;w=60, "day";q=1000;w=86400',
    RateLimit: '"minute";r=12;t=60, "day";r=0;t=80000',
  };

  test("show the windows of the newest answer, full again at their end, and whose they are", () => {
    const quota = view.quotaOf(error(401, "unauthorized", headers));
    if (quota === null) throw new Error("no quota");
    expect(quota.subject).toContain("your address");
    expect(view.quotaOf(error(404, "order_not_found", headers))?.subject).toBe("");
    expect(view.metersAt(quota, 0)).toMatchObject([
      { left: 12, level: "low", figure: "12 of 60", note: "back in 60 s" },
      { left: 0, level: "none", figure: "0 of 1,000", note: "back in 22 h 14 min" },
    ]);
    expect(view.metersAt(quota, 60_000)[0]).toMatchObject({ left: 60, note: "full again" });
    expect(view.quotaOf(answer({}))).toBeNull();
  });

  test("claim no figure during a ban, nor after it", () => {
    const quota = view.quotaOf(error(429, "api_key_banned", headers));
    if (quota === null) throw new Error("no quota");
    for (const [nowMs, note] of [
      [0, "nothing until the ban ends"],
      [90_000_000, "known after the next answer"],
    ] as const) {
      expect(view.metersAt(quota, nowMs)).toMatchObject([
        { figure: "– of 60", note },
        { figure: "– of 1,000", note },
      ]);
    }
  });

  test("write no 60 minutes or seconds", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 90_000 }), (seconds) => {
        const [, hours = "0", minutes = "0"] =
          /^(?:(\d+) h )?(\d+) min$/.exec(view.duration(seconds)) ?? [];
        if (seconds >= 7_200) expect(Number(minutes)).toBeLessThan(60);
        if (seconds >= 120)
          expect(60 * Number(hours) + Number(minutes)).toBe(Math.ceil(seconds / 60));
        const parts = view.clock(seconds).split(":").map(Number);
        expect(parts.reduce((sum, part) => 60 * sum + part)).toBe(seconds);
        for (const part of parts) expect(part).toBeLessThan(60);
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
