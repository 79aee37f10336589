/**
 * Runs `work` so that it can clean up if somebody ends the command: SIGINT and SIGTERM abort the
 * signal that it receives.
 *
 * @param unfinished what had not happened yet, for the message of the error.
 */
export async function withInterruption<T>(
  unfinished: string,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const interrupted = new AbortController();
  const interrupt = (signal: NodeJS.Signals) =>
    interrupted.abort(new Error(`ended by ${signal} before ${unfinished}`));
  // Not `once`: npm repeats the signal of a terminal, and the second one would prevent the clean-up.
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt);
  try {
    return await work(interrupted.signal);
  } finally {
    process.off("SIGINT", interrupt).off("SIGTERM", interrupt);
  }
}
