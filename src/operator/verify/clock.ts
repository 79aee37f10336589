import { setTimeout as pause } from "node:timers/promises";

/** The time by which a verification waits. A test moves it. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
  /** @throws the reason of the signal once it is aborted. */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  wait: async (milliseconds, signal) => {
    await pause(milliseconds, undefined, { signal });
  },
};
