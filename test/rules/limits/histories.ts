import fc from "fast-check";
import { BAN_MODES } from "../../../src/rules/limits/bans.ts";

export interface Step<World> {
  /** `name` and `value` describe the step in the message of a failed test. */
  readonly name: string;
  readonly value: unknown;
  readonly play: (world: World) => Promise<unknown> | void;
}

export function step<World, T>(
  name: string,
  values: fc.Arbitrary<T>,
  run: (world: World, value: T) => Promise<unknown> | void,
): fc.Arbitrary<Step<World>> {
  return values.map((value) => ({ name, value, play: (world) => run(world, value) }));
}

export function event<World>(name: string, run: (world: World) => Promise<unknown> | void) {
  return step<World, null>(name, fc.constant(null), run);
}

export function oneOf<World>(
  ...weighted: readonly (readonly [weight: number, steps: fc.Arbitrary<Step<World>>])[]
) {
  return fc.oneof(...weighted.map(([weight, arbitrary]) => ({ weight, arbitrary })));
}

/** Generates integers from 1 on. */
export const upTo = (max: number) => fc.integer({ min: 1, max });

/** Generates ban policies: a few strikes lead to a ban, and no duration exceeds its default. */
export const anyBanVars = fc.record({
  BAN_MODE: fc.constantFrom("on" as const, "on" as const, ...BAN_MODES),
  BAN_GRACE_SECONDS: fc.constantFrom(10, 1),
  BAN_STRIKE_WINDOW_SECONDS: fc.constantFrom(60, 5),
  BAN_MIN_STRIKES: upTo(4),
  BAN_MAX_STRIKES: fc.integer({ min: 4, max: 6 }),
  BAN_FIRST_SECONDS: fc.constantFrom(60, 3),
  BAN_LONGEST_SECONDS: fc.constantFrom(86_400, 240),
  BAN_FORGET_SECONDS: fc.constantFrom(86_400, 3_600),
});
