/**
 * Thrown if the service does not do what docs/api.md, docs/limits.md or the OpenAPI document
 * promises.
 */
export class BrokenPromise extends Error {
  override readonly name = "BrokenPromise";
  readonly requestId: string;

  /** @param requestId the `X-Request-Id` of the response that breaks the promise. */
  constructor(message: string, requestId: string) {
    super(message);
    this.requestId = requestId;
  }
}

/** Thrown if the service sends no complete HTTP response. */
export class NoAnswerError extends BrokenPromise {}

/**
 * Thrown if a promise of docs/api.md or docs/limits.md cannot be checked. The message is the
 * reason.
 */
export class Untried extends Error {
  override readonly name = "Untried";
}
