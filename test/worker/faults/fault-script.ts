/** The outcome of one call to a binding. */
export type Outcome =
  /** The call succeeds. */
  | { readonly do: "pass" }
  /** The call fails, and nothing has been done. */
  | { readonly do: "fail"; readonly error: Error }
  /** The call is done, but its answer is lost. */
  | { readonly do: "lose the answer"; readonly error: Error }
  /** The call is never answered, and nothing has been done. */
  | { readonly do: "hang" };

export const PASS: Outcome = { do: "pass" };
export const HANG: Outcome = { do: "hang" };

export function fail(message: string, marks: object = {}): Outcome {
  return { do: "fail", error: Object.assign(new Error(message), marks) };
}

export function loseTheAnswer(message: string): Outcome {
  return { do: "lose the answer", error: new Error(message) };
}

/** Sets the outcome of each call, and counts the calls. */
export class FaultScript {
  calls = 0;
  /** Runs when a call hangs. */
  onHang = (): void => undefined;
  #upcoming: Outcome[] = [];
  #otherwise: Outcome = PASS;

  /** Sets the outcomes of the next calls. Later calls end as `always` says. */
  next(...outcomes: Outcome[]): this {
    this.#upcoming = outcomes;
    return this;
  }

  /** Sets the outcome of every call that `next` does not set. */
  always(outcome: Outcome): this {
    this.#otherwise = outcome;
    return this;
  }

  /** Runs one call with its outcome. */
  async run<T>(call: () => Promise<T>): Promise<T> {
    this.calls += 1;
    const outcome = this.#upcoming.shift() ?? this.#otherwise;
    switch (outcome.do) {
      case "pass":
        return call();
      case "fail":
        throw outcome.error;
      case "lose the answer":
        await call();
        throw outcome.error;
      case "hang":
        this.onHang();
        return new Promise(() => undefined);
    }
  }
}
