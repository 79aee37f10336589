/** The object of a key was reached, and has more requests waiting than it can decide on. Nothing was counted. */
export class LimiterOverloadedError extends Error {
  override readonly name = "LimiterOverloadedError";

  constructor(cause: unknown) {
    super("The key's limiter is overloaded.", { cause });
  }
}
