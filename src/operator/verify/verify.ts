import { Caller, type Send } from "./caller.ts";
import { KEY_PROMISES, REVOCATION_PROMISE } from "./key-promises.ts";
import { ADMISSION_PROMISE, CROWD_PROMISES } from "./limit-promises.ts";
import { HEALTH_PROMISE, OPEN_PROMISES } from "./open-promises.ts";
import { ORDER_PROMISES } from "./order-promises.ts";
import {
  BrokenPromise,
  type Clock,
  NoAnswerError,
  obstacleTo,
  type ServicePromise,
  SYSTEM_CLOCK,
  type Trial,
  type TrialOptions,
  Untried,
} from "./service-promise.ts";

/**
 * The promises in the sequence in which they must be tried. The check with many simultaneous
 * requests comes before all others with the key, because it needs a new minute window. The
 * revocation comes last, because it makes the key unusable.
 */
const PROMISES: readonly ServicePromise[] = [
  HEALTH_PROMISE,
  ...CROWD_PROMISES,
  ...OPEN_PROMISES,
  ADMISSION_PROMISE,
  ...KEY_PROMISES,
  ...ORDER_PROMISES,
  REVOCATION_PROMISE,
];

/** The result of trying one promise. */
export interface PromiseResult {
  readonly promise: string;
  readonly result: "kept" | "broken" | "untried";
  /** Why the promise is broken or untried. */
  readonly reason?: string;
  /** The `X-Request-Id` of the response that breaks the promise. */
  readonly requestId?: string;
}

/** The results of trying all promises. */
export interface Verification {
  /** True if no promise is broken. */
  readonly isKept: boolean;
  readonly promises: readonly PromiseResult[];
}

export interface VerifyOptions extends TrialOptions {
  /** The address of the service without `/v1`. */
  readonly url: string;
  /**
   * The id of the version from which every response must be, except those of static files. Cloudflare
   * may silently ignore a header that selects a version.
   */
  readonly version?: string;
  /** Headers that are added to every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Receives each result as soon as there is one. */
  readonly report?: (result: PromiseResult) => void;
  /** Aborts the verification. */
  readonly signal?: AbortSignal;
  readonly send?: Send;
  readonly clock?: Clock;
}

/**
 * Sends requests to a running service and tries the promises of docs/api.md and docs/limits.md.
 * Stops if the service does not answer: `report` then receives no further result.
 *
 * @throws the reason of the signal, errors of `revoke`, and {OtherVersionError}.
 */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { clock = SYSTEM_CLOCK, signal = new AbortController().signal, version } = options;
  const { headers = {}, send = fetch, report = () => {} } = options;
  const url = options.url.replace(/\/$/, "");
  const caller = new Caller({ url, headers, version, send, clock, signal });
  const trial: Trial = { ...options, caller, clock, signal, seen: { crowd: [] } };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const promise of PROMISES) {
    signal.throwIfAborted();
    const { title } = promise;
    if (!isAnswering) {
      promises.push({ promise: title, result: "untried", reason: "the service does not answer" });
      continue;
    }
    let result: PromiseResult = { promise: title, result: "kept" };
    try {
      const obstacle = obstacleTo(promise, trial);
      if (obstacle !== null) throw new Untried(obstacle);
      await promise.test(trial);
    } catch (error) {
      if (!(error instanceof BrokenPromise || error instanceof Untried)) throw error;
      const { message: reason } = error;
      result =
        error instanceof Untried
          ? { promise: title, result: "untried", reason }
          : { promise: title, result: "broken", reason, requestId: error.requestId };
      isAnswering = !(error instanceof NoAnswerError);
    }
    promises.push(result);
    report(result);
  }
  return { isKept: promises.every(({ result }) => result !== "broken"), promises };
}
