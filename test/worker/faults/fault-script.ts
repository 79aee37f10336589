/** What becomes of one call to a binding. */
export type Outcome =
  /** It goes through. */
  | { readonly do: "pass" }
  /** It fails, and nothing has been done. */
  | { readonly do: "fail"; readonly error: Error }
  /** It is done, but the answer is lost. */
  | { readonly do: "lose the answer"; readonly error: Error }
  /** It is never answered, and nothing has been done. */
  | { readonly do: "hang" };

export const PASS: Outcome = { do: "pass" };
export const HANG: Outcome = { do: "hang" };

export function fail(message: string, marks: object = {}): Outcome {
  return { do: "fail", error: Object.assign(new Error(message), marks) };
}

export function loseTheAnswer(message: string): Outcome {
  return { do: "lose the answer", error: new Error(message) };
}

/** Says what becomes of each call, and remembers how many there were. */
export class FaultScript {
  calls = 0;
  /** Runs when a call hangs. */
  onHang = (): void => undefined;
  #upcoming: Outcome[] = [];
  #otherwise: Outcome = PASS;

  /** The next calls end like this, one after another, and those after them as `otherwise` says. */
  next(...outcomes: Outcome[]): this {
    this.#upcoming = outcomes;
    return this;
  }

  /** Every call ends like this that `next` says nothing about. */
  always(outcome: Outcome): this {
    this.#otherwise = outcome;
    return this;
  }

  /** Lets a call come to its end. */
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
