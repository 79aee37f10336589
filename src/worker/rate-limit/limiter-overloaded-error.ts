/**
 * Thrown if the Durable Object of a key is overloaded: more requests are waiting than it can decide
 * on. The request was not counted, unless an earlier attempt was counted and its response was lost.
 */
export class LimiterOverloadedError extends Error {
  override readonly name = "LimiterOverloadedError";

  constructor(cause: unknown) {
    super("The key's limiter is overloaded.", { cause });
  }
}
