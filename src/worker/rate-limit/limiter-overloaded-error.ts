/** The object of a key was reached, but more requests wait than it can decide on. It counted nothing. */
export class LimiterOverloadedError extends Error {
  override readonly name = "LimiterOverloadedError";

  constructor(cause: unknown) {
    super("The key's limiter is overloaded.", { cause });
  }
}
