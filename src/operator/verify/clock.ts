import { setTimeout as pause } from "node:timers/promises";

/** The clock of a verification, which tests replace by a clock that they can move. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
  /** @throws the reason of the signal as soon as the signal is aborted. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  wait: async (milliseconds, signal) => {
    await pause(milliseconds, undefined, { signal });
  },
};
