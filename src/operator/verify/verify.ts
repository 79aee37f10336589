import { BrokenPromise, NoAnswerError, Untried } from "./broken-promise.ts";
import { Caller, type Send } from "./caller.ts";
import { type Clock, SYSTEM_CLOCK } from "./clock.ts";
import { keyPromises } from "./key-promises.ts";
import { limitPromises } from "./limit-promises.ts";
import { OPEN_PROMISES } from "./open-promises.ts";
import { orderPromises } from "./order-promises.ts";
import type { OwnOrders } from "./own-orders.ts";
import { REVOCATION_PROMISE } from "./revocation-promise.ts";
import type { ServicePromise, Trial } from "./trial.ts";

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
  /**
   * Resolves to orders that may be cancelled. Without orders, the promises about them are not
   * tried.
   */
  readonly orders?: Promise<OwnOrders> | undefined;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly?: boolean;
  /** An origin that the service's var `CORS_ORIGINS` lists. */
  readonly origin?: string | undefined;
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
 *
 * @throws the reason of the signal, and errors of `revoke` and `orders`.
 */
export async function verify(options: VerifyOptions): Promise<Verification> {
  const { clock = SYSTEM_CLOCK, signal = new AbortController().signal } = options;
  const { headers = {}, send = fetch, report = () => {} } = options;
  const url = options.url.replace(/\/$/, "");
  const trial: Trial = {
    caller: new Caller({ url, headers, send, clock, signal }),
    clock,
    signal,
    key: options.key ?? null,
    isKeyNew: options.isKeyNew ?? false,
    origin: options.origin ?? null,
    revoke: options.revoke ?? null,
    orders: options.orders ?? null,
    isReadOnly: options.isReadOnly ?? false,
  };
  const promises: PromiseResult[] = [];
  let isAnswering = true;
  for (const { title, obstacle, test } of servicePromises()) {
    signal.throwIfAborted();
    const reason: string | null = isAnswering
      ? (obstacle?.(trial) ?? null)
      : "the service does not answer";
    const error: Failure | null =
      reason === null ? await failureOf(test(trial)) : new Untried(reason);
    isAnswering &&= !(error instanceof NoAnswerError);
    const result = { promise: title, ...describe(error) };
    promises.push(result);
    report(result);
  }
  return { isKept: promises.every(({ result }) => result !== "broken"), promises };
}

/**
 * Returns the promises in the sequence in which they must be tried. The check with many
 * simultaneous requests comes first, because it needs a new minute window. The revocation comes
 * last, because it makes the key unusable.
 */
function servicePromises(): readonly ServicePromise[] {
  const { crowd, afterwards } = limitPromises();
  return [
    ...crowd,
    ...OPEN_PROMISES,
    afterwards,
    ...keyPromises(),
    ...orderPromises(),
    REVOCATION_PROMISE,
  ];
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
