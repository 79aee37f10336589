import { setTimeout as pause } from "node:timers/promises";
import type { WindowQuota } from "../../client/rate-limit-headers.ts";
import type { SeenAnswer } from "../../openapi/documented-answer.ts";

/** Thrown if the service does not do what its documents promise. */
export class BrokenPromise extends Error {}

/** Thrown if a response may come from another version than the verified one. */
export class OtherVersionError extends Error {}

/** Thrown if a promise cannot be tried. The message is the reason. */
export class Untried extends Error {}

export interface PromiseResult {
  readonly promise: string;
  readonly result: "kept" | "broken" | "untried";
  /** Why the promise is untried, or how the response to which request breaks it. */
  readonly reason?: string;
}

/** Returns a text such as `37 promises kept, 0 broken, 1 not tried`. */
export function countResults(promises: readonly PromiseResult[]): string {
  const count = (wanted: string) => promises.filter(({ result }) => result === wanted).length;
  return `${count("kept")} promises kept, ${count("broken")} broken, ${count("untried")} not tried`;
}

/** The clock of a verification, in Unix milliseconds. `wait` throws as soon as `signal` is aborted. */
export interface Clock {
  now(): number;
  wait(milliseconds: number, signal: AbortSignal): Promise<void>;
}

export type Send = (url: string, init: RequestInit) => Promise<Response>;

/** What a verification uses beside the service. Tests replace it. */
export interface Surroundings {
  readonly clock: Clock;
  readonly send: Send;
  /** The id of the order that a verification places. Default: a random one. */
  readonly orderId?: bigint;
}

const clock: Clock = {
  now: () => Date.now(),
  wait: (milliseconds, signal) => pause(milliseconds, undefined, { signal }),
};
export const SURROUNDINGS: Surroundings = { clock, send: (url, init) => fetch(url, init) };

/**
 * The orders that a verification tries to cancel: the one that it has placed, with its JSON in the list
 * of orders, and one that has shipped, if there is one.
 */
export type OwnOrders = Readonly<{ id: bigint; json: string; shippedId: bigint | undefined }>;

/** A service, and how to verify it. */
export interface VerifyOptions extends Partial<Surroundings> {
  /** The address without `/v1`. */
  readonly url: string;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The id of the version that every response must name, except those of static files. */
  readonly version?: string;
  /** The secret of a key. */
  readonly key: string;
  /** Revokes the key. Set only for a new key on the Free plan that nothing else uses. */
  readonly revoke?: () => Promise<void>;
  readonly orders?: OwnOrders | undefined;
  /** True skips the promises that use up the key's limit per minute. */
  readonly isReadOnly?: boolean;
  /** The promises about bad credentials that were kept before. An address may send only few. */
  readonly triedCredentials?: Set<string>;
  readonly signal?: AbortSignal;
  /** Called with the result of each promise as soon as the promise has been tried. */
  readonly report?: (result: PromiseResult) => void;
}

/** A response that agrees with the OpenAPI document. */
export interface Answer extends SeenAnswer {
  /** The body; if it is a long list, a JSON array of the first orders. */
  readonly body: string;
  /** The `code` of an error response. */
  readonly code: string | undefined;
  readonly requestId: string;
  /** The quotas of the minute and day windows; empty if the response has no `RateLimit` header. */
  readonly windows: readonly WindowQuota[];
  /** When the request was sent and the response received, in Unix milliseconds. */
  readonly sentMs: number;
  readonly receivedMs: number;
}

/** A service that is being verified. */
export interface Trial extends Omit<VerifyOptions, keyof Surroundings>, Surroundings {
  readonly signal: AbortSignal;
  /** The promise that is being tried. */
  readonly promise: string;
  /** Responses that later tests reuse. `crowd`: the responses to many simultaneous requests. */
  readonly seen: { list?: Answer; crowd: readonly Answer[] };
}
