import { BrokenPromise } from "./broken-promise.ts";
import type { Answer, Call, Caller } from "./caller.ts";
import type { Clock } from "./clock.ts";
import type { OwnOrders } from "./own-orders.ts";

/** The path of the list of orders. */
export const LIST = "/v1/store/orders";

/** The service that is verified, and what the verification may do to it. */
export interface Trial {
  readonly caller: Caller;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The secret of the key; `null` if only promises without a key are tried. */
  readonly key: string | null;
  /** True if the key is new, of the Free plan, and used by nothing else. */
  readonly isKeyNew: boolean;
  /** An origin that the service's var `CORS_ORIGINS` lists; `null` if no such origin is given. */
  readonly origin: string | null;
  /** Revokes the key; `null` if the verification cannot revoke it. */
  readonly revoke: (() => Promise<void>) | null;
  /** The orders that the verification has placed; `null` if it may not place orders. */
  readonly orders: Promise<OwnOrders> | null;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly: boolean;
}

/** One promise that docs/api.md or docs/limits.md makes about the service. */
export interface ServicePromise {
  readonly title: string;
  /** Returns why the promise cannot be tried; `null` if it can. */
  readonly obstacle?: (trial: Trial) => string | null;
  /**
   * Tries the promise.
   *
   * @throws {BrokenPromise} if the service breaks the promise.
   * @throws {Untried} if the attempt shows that the promise cannot be tried.
   */
  readonly test: (trial: Trial) => Promise<void>;
}

export const NO_KEY = "needs a key";

/** The `obstacle` of a promise that cannot be tried without a key. */
export function needsKey({ key }: Trial): string | null {
  return key === null ? NO_KEY : null;
}

/** Sends a request with the key of the trial. */
export function callWithKey(
  { caller, key }: Trial,
  path: string,
  call: Call = {},
): Promise<Answer> {
  return caller.call(path, { ...call, ...(key !== null && { key }) });
}

/**
 * Checks the status of a response, and its error code unless `code` is `null`.
 *
 * @throws {BrokenPromise} if the response has a different status or error code.
 */
export function expectAnswer(answer: Answer, status: number, code: string | null = null): void {
  const found = answer.code ?? answer.status;
  expectThat(
    answer,
    answer.status === status && (code === null || answer.code === code),
    `the answer is ${found}, not ${code ?? status}`,
  );
}

/**
 * Checks a header of a response. The value `null` expects that the header is missing.
 *
 * @throws {BrokenPromise} if the header has a different value.
 */
export function expectHeader(answer: Answer, name: string, value: string | null): void {
  const found = answer.headers.get(name);
  expectThat(
    answer,
    found === value,
    `${name} is ${found ?? "missing"}, not ${value ?? "missing"}`,
  );
}

/**
 * Checks a condition on a response.
 *
 * @throws {BrokenPromise} with the message `fault` if the condition is false.
 */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(fault, answer.requestId);
}
