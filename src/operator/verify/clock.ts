import { setTimeout as pause } from "node:timers/promises";

/** The clock of a verification. Tests use a clock whose time they set. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
  /**
   * Waits for a duration.
   *
   * @throws the reason of `signal` as soon as `signal` is aborted.
   */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  wait: async (milliseconds, signal) => {
    await pause(milliseconds, undefined, { signal });
  },
};
