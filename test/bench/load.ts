import { setTimeout as wait } from "node:timers/promises";
import { Pool } from "undici";
import type { Request } from "./http.ts";

/** Connections where the rate is measured. */
export const CONNECTIONS = 32;

/** Requests to send, all to one origin. */
export interface Load {
  readonly requestAt: (index: number) => Request;
  readonly count: number;
  readonly connections?: number;
}

/** How a load was answered. */
export interface Answered {
  readonly perSecond: number;
  /** Answers of each status. */
  readonly statuses: ReadonlyMap<number, number>;
}

/** Sends each request as soon as a connection is free. Its client costs a third of Node's own. */
export async function sendLoad({
  requestAt,
  count,
  connections = CONNECTIONS,
}: Load): Promise<Answered> {
  // Connections of its own, because Workers drop those that are idle for a while.
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

/** Sends one request and reads its answer. @returns the status. */
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
 * Sends each request in time, even if those before it are still under way, on a connection of its own.
 *
 * @param url of the server.
 * @param isOver asked before each request.
 * @returns the statuses of the answers; the reason where there was no answer.
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
