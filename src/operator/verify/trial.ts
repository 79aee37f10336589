import { BrokenPromise } from "./broken-promise.ts";
import type { Answer, Call, Caller } from "./caller.ts";
import type { Clock } from "./clock.ts";
import type { OwnOrders } from "./own-orders.ts";

/** The path of the list. */
export const LIST = "/v1/store/orders";

/** The service on trial, and what a verification may do to it. */
export interface Trial {
  readonly caller: Caller;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** The secret of the key. */
  readonly key: string | null;
  /** True if the key is new, of the Free plan, and used by nothing else. */
  readonly isKeyNew: boolean;
  /** An origin that the var `CORS_ORIGINS` lists. */
  readonly origin: string | null;
  readonly revoke: (() => Promise<void>) | null;
  readonly orders: Promise<OwnOrders> | null;
  /** True uses nothing up. */
  readonly isReadOnly: boolean;
}

/** One promise of the documents. */
export interface ServicePromise {
  readonly title: string;
  /** Returns why the promise cannot be tried; `null` if it can. */
  readonly obstacle?: (trial: Trial) => string | null;
  /**
   * Tries the promise.
   *
   * @throws {BrokenPromise} if the service does not keep it.
   * @throws {Untried} if it turns out that it cannot be tried.
   */
  readonly test: (trial: Trial) => Promise<void>;
}

export const NO_KEY = "needs a key";

/** Requires a key. */
export function needsKey({ key }: Trial): string | null {
  return key === null ? NO_KEY : null;
}

/** Sends a request with the key on trial. */
export function callWithKey(
  { caller, key }: Trial,
  path: string,
  call: Call = {},
): Promise<Answer> {
  return caller.call(path, { ...call, ...(key !== null && { key }) });
}

/** @throws {BrokenPromise} if the answer has another status or error code. */
export function expectAnswer(answer: Answer, status: number, code: string | null = null): void {
  const found = answer.code ?? answer.status;
  expectThat(
    answer,
    answer.status === status && (code === null || answer.code === code),
    `the answer is ${found}, not ${code ?? status}`,
  );
}

/** @throws {BrokenPromise} if the header has another value; `null` stands for no header. */
export function expectHeader(answer: Answer, name: string, value: string | null): void {
  const found = answer.headers.get(name);
  expectThat(
    answer,
    found === value,
    `${name} is ${found ?? "missing"}, not ${value ?? "missing"}`,
  );
}

/** @throws {BrokenPromise} with this fault unless the condition holds. */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(fault, answer.requestId);
}
