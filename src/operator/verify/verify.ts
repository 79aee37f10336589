import { Caller, type Send } from "./caller.ts";
import { KEY_PROMISES, REVOCATION_PROMISE } from "./key-promises.ts";
import { ADMISSION_PROMISE, CROWD_PROMISES } from "./limit-promises.ts";
import { HEALTH_PROMISE, OPEN_PROMISES } from "./open-promises.ts";
import { ORDER_PROMISES } from "./order-promises.ts";
import type { OwnOrders } from "./own-orders.ts";
import {
  BrokenPromise,
  type Clock,
  NoAnswerError,
  obstacleTo,
  type ServicePromise,
  SYSTEM_CLOCK,
  type Trial,
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

export interface VerifyOptions {
  /** The address of the service without `/v1`. */
  readonly url: string;
  /** The secret of a key. Without a key, only the promises that need no key are tried. */
  readonly key?: string | undefined;
  /** True if the key is new, of the Free plan, and used by nothing else. */
  readonly isKeyNew?: boolean;
  /** Revokes the key. Without this function, the promise about revocation is not tried. */
  readonly revoke?: (() => Promise<void>) | undefined;
  /** The orders to cancel. Without orders, the promises about them are not tried. */
  readonly orders?: OwnOrders | undefined;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly?: boolean;
  /** An origin that the service's var `CORS_ORIGINS` lists. */
  readonly origin?: string | undefined;
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
  const trial: Trial = {
    caller: new Caller({ url, headers, version, send, clock, signal }),
    clock,
    signal,
    key: options.key ?? null,
    isKeyNew: options.isKeyNew ?? false,
    origin: options.origin ?? null,
    revoke: options.revoke ?? null,
    orders: options.orders ?? null,
    isReadOnly: options.isReadOnly ?? false,
    seen: { crowd: [] },
  };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const promise of PROMISES) {
    signal.throwIfAborted();
    const reason: string | null = isAnswering
      ? obstacleTo(promise, trial)
      : "the service does not answer";
    const error: Failure | null =
      reason === null ? await failureOf(promise.test(trial)) : new Untried(reason);
    const result = { promise: promise.title, ...describe(error) };
    promises.push(result);
    if (isAnswering) report(result);
    isAnswering &&= !(error instanceof NoAnswerError);
  }
  return { isKept: promises.every(({ result }) => result !== "broken"), promises };
}

type Failure = BrokenPromise | Untried;

/**
 * Returns the error of a test whose promise is broken or cannot be tried; `null` if the promise is
 * kept.
 *
 * @throws every other error.
 */
async function failureOf(test: Promise<void>): Promise<Failure | null> {
  try {
    await test;
    return null;
  } catch (error) {
    if (error instanceof BrokenPromise || error instanceof Untried) return error;
    throw error;
  }
}

function describe(error: Failure | null): Omit<PromiseResult, "promise"> {
  if (error === null) return { result: "kept" };
  const { message: reason } = error;
  return error instanceof Untried
    ? { result: "untried", reason }
    : { result: "broken", reason, requestId: error.requestId };
}
