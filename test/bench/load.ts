import { setTimeout as wait } from "node:timers/promises";
import { Pool } from "undici";
import type { Request } from "./http.ts";

/** The default number of connections of a load. */
export const CONNECTIONS = 32;

/** A series of `count` requests to one origin. */
export interface Load {
  readonly requestAt: (index: number) => Request;
  readonly count: number;
  readonly connections?: number;
}

/** The responses to a load. */
export interface Answered {
  readonly perSecond: number;
  /** The number of responses with each HTTP status. */
  readonly statuses: ReadonlyMap<number, number>;
}

/**
 * Sends each request as soon as a connection is free. The HTTP client is undici, because it needs
 * only a third of the processor time of Node's `http` client.
 */
export async function sendLoad({
  requestAt,
  count,
  connections = CONNECTIONS,
}: Load): Promise<Answered> {
  // Opens new connections for each load, because Workers close idle connections.
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
 * Sends a load and measures its rate.
 *
 * @returns the number of requests per second.
 * @throws {Error} if the status of a response is not `expectedStatus`.
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

/** Sends one request, reads the whole response and returns its HTTP status. */
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
 * Sends requests at a fixed rate, each on its own connection, even while earlier requests are still
 * in flight.
 *
 * @param url the URL of the server.
 * @param everyMs the time between two requests in milliseconds.
 * @param isOver called before each request; `true` ends the load.
 * @returns for each request the HTTP status, or the error as text if no response arrived.
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
