import { setTimeout as pause } from "node:timers/promises";
import type { Answer, Call, Caller } from "./caller.ts";
import type { OwnOrders } from "./own-orders.ts";

/** The path of the list of orders. */
export const LIST = "/v1/store/orders";

/**
 * Thrown if the service does not do what docs/api.md, docs/limits.md or the OpenAPI document
 * promises.
 */
export class BrokenPromise extends Error {
  override readonly name: string = "BrokenPromise";
  readonly requestId: string;

  /** @param requestId the `X-Request-Id` of the response that breaks the promise. */
  constructor(message: string, requestId: string) {
    super(message);
    this.requestId = requestId;
  }
}

/** Thrown if the service sends no complete HTTP response. */
export class NoAnswerError extends BrokenPromise {
  override readonly name = "NoAnswerError";
}

/** Thrown if a promise cannot be tried. The message is the reason. */
export class Untried extends Error {
  override readonly name = "Untried";
}

/** The clock of a verification. Tests use a clock whose time they set. */
export interface Clock {
  /** Unix time in milliseconds. */
  now(): number;
  /**
   * Waits for a duration.
   *
   * @throws the reason of `signal` as soon as `signal` is aborted.
   */
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  wait: async (milliseconds, signal) => {
    await pause(milliseconds, undefined, { signal });
  },
};

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
  /** The orders that the verification may try to cancel; `null` if it may not. */
  readonly orders: OwnOrders | null;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly: boolean;
  /** Responses that several promises are about. */
  readonly seen: Seen;
}

/** Responses of the service that a test keeps for the tests after it. */
export interface Seen {
  /** The beginning of the list of orders. */
  list?: Answer;
  /** The responses to many simultaneous requests. */
  crowd: readonly Answer[];
}

/** The preconditions of trying a promise, and the reason given if one is missing. */
const OBSTACLES = {
  key: ({ key }: Trial) => key === null && "needs a key",
  limit: ({ isReadOnly }: Trial) => isReadOnly && "uses up the key's minute",
  orders: ({ orders }: Trial) => orders === null && "places an order: add --write",
  origin: ({ origin }: Trial) => origin === null && "name a listed origin with --origin",
  revoke: ({ revoke }: Trial) =>
    revoke === null && "cannot revoke the key: name its store with --env",
};

/** One promise that docs/api.md or docs/limits.md makes about the service. */
export interface ServicePromise {
  readonly title: string;
  readonly needs?: readonly (keyof typeof OBSTACLES)[];
  /**
   * Tries the promise.
   *
   * @throws {BrokenPromise} if the service breaks the promise.
   * @throws {Untried} if the attempt shows that the promise cannot be tried.
   */
  readonly test: (trial: Trial) => Promise<void>;
}

/** Returns why a promise cannot be tried; `null` if it can. */
export function obstacleTo({ needs = [] }: ServicePromise, trial: Trial): string | null {
  return needs.map((need) => OBSTACLES[need](trial)).find((reason) => reason !== false) ?? null;
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
