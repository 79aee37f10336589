/** The service does not do what the documents promise. */
export class BrokenPromise extends Error {
  override readonly name = "BrokenPromise";
  readonly requestId: string;

  /** @param requestId the `X-Request-Id` of the answer at fault. */
  constructor(message: string, requestId: string) {
    super(message);
    this.requestId = requestId;
  }
}

/** The service gave no HTTP answer. */
export class NoAnswerError extends BrokenPromise {}

/** A promise cannot be tried. The message is the reason. */
export class Untried extends Error {
  override readonly name = "Untried";
}
