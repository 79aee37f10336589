import { setTimeout as wait } from "node:timers/promises";
import { Pool } from "undici";
import type { Request } from "./http.ts";

/** Connections for measuring a rate. */
export const CONNECTIONS = 32;

/** Requests to send to one origin. */
export interface Load {
  readonly requestAt: (index: number) => Request;
  readonly count: number;
  readonly connections?: number;
}

/** The answers to a load. */
export interface Answered {
  readonly perSecond: number;
  /** The number of answers with each status. */
  readonly statuses: ReadonlyMap<number, number>;
}

/**
 * Sends each request as soon as a connection is free. undici's client costs a third of Node's own.
 */
export async function sendLoad({
  requestAt,
  count,
  connections = CONNECTIONS,
}: Load): Promise<Answered> {
  // New connections for each load, because Workers drop idle ones.
  const pool = new Pool(new URL(requestAt(0).url).origin, { connections });
  const statuses = new Map<number, number>();
  let next = 0;
  const sendUntilNoneIsLeft = async () => {
    while (next < count) {
      const status = await sendOne(pool, requestAt(next++));
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  };
  const startMs = performance.now();
  await Promise.all(Array.from({ length: connections }, sendUntilNoneIsLeft));
  const seconds = (performance.now() - startMs) / 1_000;
  await pool.destroy();
  return { perSecond: count / seconds, statuses };
}

/**
 * Sends requests that all have the same answer.
 *
 * @returns requests per second.
 * @throws an Error if an answer has another status.
 */
export async function requestRate(load: Load, expectedStatus: number): Promise<number> {
  const { perSecond, statuses } = await sendLoad(load);
  for (const [status, answers] of statuses) {
    if (status === expectedStatus) continue;
    const { url } = load.requestAt(0);
    throw new Error(`${url}: ${answers} times ${status} instead of ${expectedStatus}.`);
  }
  return perSecond;
}

/** Sends one request, reads the answer and returns its status. */
export async function sendOne(
  pool: Pool,
  { url, method = "GET", headers = {} }: Request,
): Promise<number> {
  const { pathname, search } = new URL(url);
  const { statusCode, body } = await pool.request({ path: pathname + search, method, headers });
  await body.arrayBuffer();
  return statusCode;
}

/**
 * Sends requests at a fixed rate, each on its own connection, even if earlier ones are still under
 * way.
 *
 * @param url the address of the server.
 * @param isOver called before each request; `true` ends the load.
 * @returns the status of each answer, or the error of a request without an answer.
 */
export async function sendEvery(
  url: string,
  everyMs: number,
  requestAt: (index: number) => Request,
  isOver: (index: number) => boolean,
): Promise<(number | string)[]> {
  const pool = new Pool(new URL(url).origin, { pipelining: 0 });
  const startMs = performance.now();
  const sent: Promise<number | string>[] = [];
  for (let index = 0; !isOver(index); index += 1) {
    const earlyMs = startMs + index * everyMs - performance.now();
    if (earlyMs > 0) await wait(earlyMs);
    sent.push(sendOne(pool, requestAt(index)).catch(String));
  }
  const answers = await Promise.all(sent);
  await pool.destroy();
  return answers;
}
