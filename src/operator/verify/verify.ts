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

/** What became of one promise. */
export interface PromiseResult {
  readonly promise: string;
  readonly result: "kept" | "broken" | "untried";
  /** Why the promise is broken or untried. */
  readonly reason?: string;
  /** The `X-Request-Id` of the answer at fault. */
  readonly requestId?: string;
}

/** What became of all promises. */
export interface Verification {
  /** True if no promise is broken. */
  readonly isKept: boolean;
  readonly promises: readonly PromiseResult[];
}

export interface VerifyOptions {
  /** The address of the service without `/v1`. */
  readonly url: string;
  /** The secret of a key. Without one, only the promises to anybody are tried. */
  readonly key?: string | undefined;
  /** True if the key is new, of the Free plan, and used by nothing else. */
  readonly isKeyNew?: boolean;
  /** Revokes the key. Without it, the end of a revoked key is untried. */
  readonly revoke?: (() => Promise<void>) | undefined;
  /** Orders to cancel, which may still be being placed. Without them, nothing is written. */
  readonly orders?: Promise<OwnOrders> | undefined;
  /** True uses nothing up, so that a service in use can be verified. */
  readonly isReadOnly?: boolean;
  /** An origin that the var `CORS_ORIGINS` lists. */
  readonly origin?: string | undefined;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Receives each result as soon as there is one. */
  readonly report?: (result: PromiseResult) => void;
  /** Ends the verification. */
  readonly signal?: AbortSignal;
  readonly send?: Send;
  readonly clock?: Clock;
}

/**
 * Tries the promises of docs/api.md and docs/limits.md on a running service, from outside.
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

/** The order matters: the crowd needs a new minute, and the revocation ends the key. */
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

/** @throws any error that is not about a promise. */
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
