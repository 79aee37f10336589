import { expect, test, vi } from "vitest";
import { readState, toStored } from "../../../src/worker/limiter/stored-state.ts";
import { keyPolicy, SimulatedLimiter } from "../limit-rules/simulated-limiter.ts";

const limiter = new SimulatedLimiter(keyPolicy(60, 1_000));
limiter.requests(61);
limiter.advance(10_000).requests(60);
const state = limiter.state!;
const stored = toStored(state);

test("a stored state is read even if it has fields of a later version", () => {
  const later = {
    ...stored,
    version: 2,
    hour: { openedMs: 1, count: 1 },
    ban: { ...stored.ban, reason: "hammering" },
  };
  expect(readState(later).limiter).toEqual({ ...state, wait: null });
});

test.for([
  undefined,
  null,
  "record",
  {},
  { ...stored, limits: undefined },
  { ...stored, limits: { perMinute: "60", perDay: 1_000 } },
  { ...stored, minute: { openedMs: Number.NaN, count: 1 } },
  { ...stored, minute: { openedMs: 1, count: -1 } },
  { ...stored, day: { openedMs: 1, count: 1.5 } },
  { ...stored, day: undefined },
  { ...stored, ban: { untilMs: "tomorrow", number: 1 } },
  { ...stored, ban: { untilMs: 1, number: 1, loggedOnly: false } },
  { ...stored, revision: -1 },
])("a stored state is empty if it cannot be read: %j", (row) => {
  expect(readState(row).limiter).toBeNull();
});

test.for([
  ["limiter", { minute: "full" }, { limiter: null }],
  ["usage", { usage: [{ day: -1 }] }, { usage: [] }],
  ["bans", { unreportedBans: "none" }, { unreportedBans: [] }],
  ["cancellation", { cancellation: { sequence: 1 } }, { cancellation: null }],
] as const)(
  "only the part %s is empty if it cannot be read, which is logged",
  ([part, bad, read]) => {
    const warn = vi.spyOn(console, "warn").mockReturnValue();
    const row = {
      ...stored,
      keyId: "key_test",
      usage: [],
      unreportedBans: [{ beganMs: 1, untilMs: 2, number: 1, resets: 0 }],
      cancellation: { sequence: 7, atMs: 5 },
    };
    const { unreportedBans, cancellation } = row;
    const whole = { keyId: "key_test", limiter: { ...state, wait: null }, usage: [] };
    expect(readState(row)).toStrictEqual({ ...whole, unreportedBans, cancellation });
    expect(readState({ ...stored, keyId: "key_test" })).toMatchObject({ unreportedBans: [] });
    expect(warn).not.toHaveBeenCalled();
    const expected = { ...whole, unreportedBans, cancellation, ...read };
    expect(readState({ ...row, ...bad })).toStrictEqual(expected);
    const line = { event: "limiter_state_unreadable", keyId: "key_test", part };
    expect(warn.mock.calls.map(([text]) => JSON.parse(String(text)))).toStrictEqual([line]);
    warn.mockRestore();
  },
);
