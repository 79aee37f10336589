import { expect, test } from "vitest";
import { readState } from "../../../src/worker/limiter/stored-state.ts";
import { eventLines, startListening } from "../../support/written-lines.ts";

const keyId = "key_test";
const limiter = {
  limits: { perMinute: 60, perDay: 1_000_000_000 },
  revision: 1,
  resets: 0,
  minute: { openedMs: 1, count: 60 },
  day: { openedMs: 1, count: 900_000_000 },
  ban: { beganMs: 0, untilMs: 60_000, number: 1 },
};
const unreportedBans = [{ beganMs: 1, untilMs: 2, number: 1, resets: 0 }];
const others = { keyId, usage: [], unreportedBans, cancelledMs: 5 };
const whole = { ...others, limiter: { ...limiter, wait: null } };

test("a stored state is read even if it has fields of a later version, or lacks those of one; only a part that cannot be read is empty, which is logged", () => {
  startListening();
  const none = { keyId: null, usage: [], unreportedBans: [], cancelledMs: null };
  const ban = { ...limiter.ban, reason: "hammering" };
  const later = { ...limiter, version: 2, hour: { openedMs: 1, count: 1 }, ban };
  expect(readState(later)).toStrictEqual({ ...whole, ...none });
  expect(readState({ ...later, ...others })).toStrictEqual(whole);
  expect(eventLines()).toStrictEqual([]);
  for (const [part, bad, read] of [
    ["limiter", { minute: { openedMs: 1, count: -1 } }, { limiter: null }],
    ["usage", { usage: [{ day: -1 }] }, { usage: [] }],
    ["bans", { unreportedBans: "none" }, { unreportedBans: [] }],
    ["cancellation", { cancelledMs: "now" }, { cancelledMs: null }],
  ] as const) {
    expect(readState({ ...limiter, ...others, ...bad })).toStrictEqual({ ...whole, ...read });
    expect(eventLines().at(-1)).toStrictEqual({ event: "limiter_state_unreadable", keyId, part });
  }
  expect(eventLines()).toHaveLength(4);
});
