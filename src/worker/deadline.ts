/**
 * Settles as `promise` does, or rejects after `milliseconds`. Every request calls this, so the error
 * is made only when the time is up.
 *
 * @param late makes the error.
 */
export function withDeadline<T>(
  promise: Promise<T>,
  milliseconds: number,
  late: () => Error = () => new Error(`timed out after ${milliseconds} ms`),
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const timer = setTimeout(() => reject(late()), milliseconds);
    promise.then(
      (value) => {
        clearTimeout(timer);
        resolve(value);
      },
      (error: unknown) => {
        clearTimeout(timer);
        reject(error);
      },
    );
  });
}
