import { PROMISES } from "./promises.ts";
import {
  BrokenPromise,
  NoAnswerError,
  OBSTACLES,
  type PromiseResult,
  SYSTEM_CLOCK,
  type Trial,
  Untried,
  type VerifyOptions,
} from "./service-promise.ts";

export interface Verification {
  /** True if no promise is broken. */
  readonly isKept: boolean;
  readonly promises: readonly PromiseResult[];
}

/**
 * Tries the promises of docs/api.md and docs/limits.md on a running service. If the service does not
 * answer, sends no further request, and reports no further result.
 *
 * @throws {OtherVersionError} if a response does not name the version `options.version`.
 * @throws if `signal` is aborted or `revoke` fails.
 */
export async function verify({
  report = () => {},
  headers = {},
  send = fetch,
  clock = SYSTEM_CLOCK,
  signal = new AbortController().signal,
  ...options
}: VerifyOptions): Promise<Verification> {
  const trial: Trial = { ...options, headers, send, clock, signal, seen: { crowd: [] } };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const { title: promise, needs, test } of PROMISES) {
    signal.throwIfAborted();
    if (!isAnswering) {
      promises.push({ promise, result: "untried", reason: "the service does not answer" });
      continue;
    }
    let result: PromiseResult = { promise, result: "kept" };
    try {
      const obstacle = needs.map((need) => OBSTACLES[need](trial)).find(Boolean);
      if (obstacle) throw new Untried(obstacle);
      await test(trial);
    } catch (error) {
      const { message: reason } = error as Error;
      if (error instanceof Untried) result = { promise, result: "untried", reason };
      else if (error instanceof BrokenPromise) {
        result = { promise, result: "broken", reason, requestId: error.requestId };
      } else throw error;
      isAnswering = !(error instanceof NoAnswerError);
    }
    promises.push(result);
    report(result);
  }
  return { isKept: promises.every(({ result }) => result !== "broken"), promises };
}
