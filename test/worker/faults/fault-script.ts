/** The outcome of one call to a binding. */
export type Outcome =
  /** The call to the binding succeeds. */
  | { readonly do: "pass" }
  /** The call to the binding fails without any effect. */
  | { readonly do: "fail"; readonly error: Error }
  /** The call to the binding takes effect, but its result is lost. */
  | { readonly do: "lose the answer"; readonly error: Error }
  /** The call to the binding never returns and has no effect. */
  | { readonly do: "hang" };

export const PASS: Outcome = { do: "pass" };
export const HANG: Outcome = { do: "hang" };

export function fail(message: string, marks: object = {}): Outcome {
  return { do: "fail", error: Object.assign(new Error(message), marks) };
}

export function loseTheAnswer(message: string): Outcome {
  return { do: "lose the answer", error: new Error(message) };
}

/** Determines the outcome of each call to a binding, and counts the calls. */
export class FaultScript {
  calls = 0;
  /** Called when a call to a binding hangs. */
  onHang = (): void => undefined;
  #upcoming: Outcome[] = [];
  #otherwise: Outcome = PASS;

  /** Sets the outcomes of the next calls. Later calls have the outcome that `always` sets. */
  next(...outcomes: Outcome[]): this {
    this.#upcoming = outcomes;
    return this;
  }

  /** Sets the outcome of all calls whose outcome `next` does not set. */
  always(outcome: Outcome): this {
    this.#otherwise = outcome;
    return this;
  }

  /** Runs one call to a binding with the outcome that the script has for the call. */
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
