import { once } from "node:events";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** The last signal that interrupted a command of this process. */
export let receivedSignal: NodeJS.Signals | undefined;

/**
 * Waits for work that needs no clean-up, but not longer than until `signal` is aborted: a pipe that
 * nobody reads or writes cannot be closed while it is waited for.
 */
export async function unlessAborted<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
  signal.throwIfAborted();
  const aborted = once(signal, "abort").then(() => Promise.reject(signal.reason as Error));
  return Promise.race([work(), aborted]);
}

/**
 * Runs `work` with a signal that SIGINT, SIGTERM and SIGHUP abort, so that `work` can clean up.
 *
 * @param unfinished the end of the abort error's message, after "ended by SIGINT before".
 */
export async function withInterruption<T>(
  unfinished: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const interrupted = new AbortController();
  const interrupt = (signal: NodeJS.Signals) => {
    receivedSignal = signal;
    interrupted.abort(new Error(`ended by ${signal} before ${unfinished}`));
  };
  // Not `once`: npm sends Ctrl+C a second time, which would end the process before the clean-up.
  for (const name of SIGNALS) process.on(name, interrupt);
  try {
    return await work(interrupted.signal);
  } catch (error) {
    // A stream that the signal destroys throws an `AbortError` instead of the signal's reason.
    const isAborted = interrupted.signal.aborted && (error as Error).name === "AbortError";
    throw isAborted ? interrupted.signal.reason : error;
  } finally {
    for (const name of SIGNALS) process.off(name, interrupt);
  }
}
