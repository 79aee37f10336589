import { beforeEach, expect, test, vi } from "vitest";
import { readState } from "../../../src/worker/limiter/stored-state.ts";
import { eventLines, startListening } from "../../support/written-lines.ts";

const stored = {
  limits: { perMinute: 60, perDay: 1_000 },
  revision: 1,
  resets: 0,
  minute: { openedMs: 1, count: 60 },
  day: { openedMs: 1, count: 60 },
  ban: { beganMs: 0, untilMs: 60_000, number: 1 },
};

beforeEach(() => {
  vi.restoreAllMocks();
  startListening();
});

test("a stored state is read even if it has fields of a later version", () => {
  const ban = { ...stored.ban, reason: "hammering" };
  const later = { ...stored, version: 2, hour: { openedMs: 1, count: 1 }, ban };
  expect(readState(later).limiter).toEqual({ ...stored, wait: null });
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
  { ...stored, ban: { beganMs: 0, untilMs: 1, number: 1, loggedOnly: false } },
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
    const keyId = "key_test";
    const unreportedBans = [{ beganMs: 1, untilMs: 2, number: 1, resets: 0 }];
    const others = { keyId, usage: [], unreportedBans, cancellation: { sequence: 7, atMs: 5 } };
    const whole = { ...others, limiter: { ...stored, wait: null } };
    expect(readState({ ...stored, ...others })).toStrictEqual(whole);
    expect(readState({ ...stored, keyId })).toMatchObject({ unreportedBans: [] });
    expect(eventLines()).toStrictEqual([]);
    expect(readState({ ...stored, ...others, ...bad })).toStrictEqual({ ...whole, ...read });
    expect(eventLines()).toStrictEqual([{ event: "limiter_state_unreadable", keyId, part }]);
  },
);
