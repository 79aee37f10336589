import { env } from "cloudflare:workers";
import { vi } from "vitest";
import * as deadlines from "../../src/worker/deadline.ts";
import { wrapBinding } from "./wrapped-bindings.ts";

/** Runs one call to a binding, or makes the call fail or hang. */
export type Outcome = <T>(call: () => Promise<T>) => Promise<T>;

export const PASS: Outcome = (call) => call();

export const HANG: Outcome = () => new Promise(() => undefined);

export function fail(message: string, marks: object = {}): Outcome {
  return () => Promise.reject(Object.assign(new Error(message), marks));
}

export function loseTheAnswer(message: string, marks: object = {}): Outcome {
  return (call) => call().then(() => fail(message, marks)(call));
}

export const LOST = fail("D1_ERROR: Network connection lost.");

/** Determines the outcomes of the calls to bindings, and counts the calls. */
export class FaultScript {
  calls = 0;
  onHang = (): void => undefined;
  #upcoming: Outcome[] = [];
  #otherwise: Outcome = PASS;

  /** Sets the outcomes of the next calls. Later calls have the outcome that `always` sets. */
  next(...outcomes: Outcome[]): this {
    this.#upcoming = outcomes;
    return this;
  }

  always(outcome: Outcome): this {
    this.#otherwise = outcome;
    return this;
  }

  run<T>(call: () => Promise<T>): Promise<T> {
    this.calls += 1;
    const outcome = this.#upcoming.shift() ?? this.#otherwise;
    if (outcome === HANG) this.onHang();
    return outcome(call);
  }
}

/** Returns a database whose calls all have this outcome. A batch is one call. */
export function brokenDatabase(name: "ORDERS" | "KEYS", outcome: Outcome = LOST) {
  return { [name]: wrapBinding(env[name], outcome) };
}

/** Returns real databases (default: both) with the faults of `script`. A batch is one call. */
export function faultyDatabases(...names: readonly ("ORDERS" | "KEYS")[]) {
  const script = new FaultScript();
  const faulty = names.length === 0 ? (["ORDERS", "KEYS"] as const) : names;
  const bindings = faulty.map((name) => brokenDatabase(name, (call) => script.run(call)));
  return {
    bindings: Object.assign({}, ...bindings) as Partial<Pick<Cloudflare.Env, "ORDERS" | "KEYS">>,
    script,
  };
}

/** Returns real Durable Objects with injected faults. `places` records the options of each stub. */
export function faultyLimiters() {
  const script = new FaultScript();
  const places: unknown[] = [];
  const limiters = wrapBinding(env.RATE_LIMITER, (call) => script.run(call));
  const getByName: typeof limiters.getByName = (name, place) => {
    places.push(place);
    return limiters.getByName(name, place);
  };
  const bindings = { RATE_LIMITER: { getByName } as typeof limiters };
  return { bindings, script, places };
}

export function brokenLimiters() {
  return { RATE_LIMITER: wrapBinding(env.RATE_LIMITER, fail("Internal error.")) };
}

/** Returns a function that lets one more of the next deadlines of exactly this length expire at once. */
export function skipDeadlines(timeoutMs: number): () => void {
  const { withDeadline } = deadlines;
  let skips = 0;
  vi.spyOn(deadlines, "withDeadline").mockImplementation((promise, ms, late) => {
    const isSkipped = skips > 0 && ms === timeoutMs;
    skips -= Number(isSkipped);
    return withDeadline(promise, isSkipped ? 0 : ms, late);
  });
  return () => void (skips += 1);
}
