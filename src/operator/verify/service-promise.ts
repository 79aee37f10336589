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

/** Thrown if a response is not known to come from the version that is verified. */
export class OtherVersionError extends Error {
  override readonly name = "OtherVersionError";
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

/** The resources and permissions of a verification. */
export interface TrialOptions {
  /** The secret of a key. Without a key, only the promises that need no key are tried. */
  readonly key?: string | undefined;
  /** Revokes the key, which is then new, of the Free plan, and used by nothing else. */
  readonly revoke?: (() => Promise<void>) | undefined;
  /** The orders that the verification may try to cancel. */
  readonly orders?: OwnOrders | undefined;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly?: boolean;
  /** An origin that the service's var `CORS_ORIGINS` lists. */
  readonly origin?: string | undefined;
}

/** The service that is verified. */
export interface Trial extends TrialOptions {
  readonly caller: Caller;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Responses that a test keeps for the tests after it. */
  readonly seen: {
    /** The beginning of the list of orders. */
    list?: Answer;
    /** The responses to many simultaneous requests. */
    crowd: readonly Answer[];
  };
}

/** The preconditions of trying a promise, and the reason given if one is missing. */
const OBSTACLES = {
  key: ({ key }: Trial) => key === undefined && "needs a key",
  limit: ({ isReadOnly, revoke }: Trial) =>
    isReadOnly ? "uses up the key's minute" : revoke === undefined && "needs a new Free key",
  orders: ({ orders }: Trial) => orders === undefined && "places an order: add --write",
  origin: ({ origin }: Trial) => origin === undefined && "name a listed origin with --origin",
  revoke: ({ revoke }: Trial) =>
    revoke === undefined && "cannot revoke the key: name its store with --env",
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
  return needs.map((need) => OBSTACLES[need](trial)).find((reason) => reason) || null;
}

/** Sends a request with the key of the trial. */
export function callWithKey(
  { caller, key }: Trial,
  path: string,
  call: Call = {},
): Promise<Answer> {
  return caller.call(path, { ...call, ...(key !== undefined && { key }) });
}

/** The response that a promise describes. */
interface Expected {
  readonly status: number;
  readonly code?: string;
  /** The value of each header; `null` if the response must not have the header. */
  readonly headers?: Readonly<Record<string, string | null>>;
  /** A part of the body. */
  readonly body?: string;
}

/** Returns the promise that the service answers each of these requests with this response. */
export function answered(
  title: string,
  requests: readonly (Call & { readonly path?: string; readonly withKey?: boolean })[],
  expected: Expected,
): ServicePromise {
  const test = async (trial: Trial): Promise<void> => {
    for (const { path = LIST, withKey, ...call } of requests) {
      const answer = withKey ? callWithKey(trial, path, call) : trial.caller.call(path, call);
      expectAnswer(await answer, expected);
    }
  };
  return { title, needs: requests.some(({ withKey }) => withKey) ? ["key"] : [], test };
}

/**
 * Compares a response with what is expected.
 *
 * @throws {BrokenPromise} for the first difference.
 */
export function expectAnswer(answer: Answer, { status, code, headers = {}, body }: Expected): void {
  const found = answer.code ?? answer.status;
  const isExpected = answer.status === status && (code === undefined || answer.code === code);
  expectThat(answer, isExpected, `the answer is ${found}, not ${code ?? status}`);
  for (const [name, value] of Object.entries(headers)) {
    const header = answer.headers.get(name);
    const fault = `${name} is ${header ?? "missing"}, not ${value ?? "missing"}`;
    expectThat(answer, header === value, fault);
  }
  if (body !== undefined) {
    expectThat(answer, answer.body.includes(body), `the body does not include ${body}`);
  }
}

/**
 * Checks a condition on a response.
 *
 * @throws {BrokenPromise} with the message `fault` if the condition is false.
 */
export function expectThat(answer: Answer, condition: boolean, fault: string): void {
  if (!condition) throw new BrokenPromise(fault, answer.requestId);
}
