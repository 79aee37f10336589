/** Settles like `promise`, or rejects with `late()` if that takes longer than `milliseconds`. */
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

export function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => void setTimeout(resolve, milliseconds));
}
