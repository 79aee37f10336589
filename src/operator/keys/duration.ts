import { InvalidArgumentError } from "commander";

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Makes a reader of durations such as `90s`, `90m`, `24h` and `7d`, or `0`.
 *
 * @returns milliseconds, `maxDays` at most.
 */
export function durationUpTo(maxDays: number): (text: string) => number {
  return (text) => {
    const { count, unit } = /^(?<count>\d{1,9})(?<unit>[smhd])$/.exec(text)?.groups ?? {};
    const ms = text === "0" ? 0 : Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
    if (ms <= maxDays * UNIT_MS.d) return ms;
    throw new InvalidArgumentError(
      `Expected a duration such as 90m, 24h or 7d, of ${maxDays} days at the most, or 0.`,
    );
  };
}
