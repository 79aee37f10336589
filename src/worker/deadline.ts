/** Settles like `promise`, or rejects with `late()` if that takes longer than `milliseconds`. */
export function withDeadline<T>(
  promise: Promise<T>,
  milliseconds: number,
  late: () => Error = () => new Error(`timed out after ${milliseconds} ms`),
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), milliseconds);
    promise.finally(() => clearTimeout(timer)).then(resolve, reject);
  });
}

/** Returns whether a time was less than `ms` ago. False if the clock was set back to before it. */
export function isWithin(ms: number, sinceMs: number, nowMs = Date.now()): boolean {
  return nowMs >= sinceMs && nowMs - sinceMs < ms;
}

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}
