import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import type { Operations } from "./observed/counted-service.ts";
import type { Server } from "./server.ts";

/** The default number of connections of a load. */
export const CONNECTIONS = 32;
const BAN_TIMEOUT_MS = 30_000;

/** A request that the benchmark sends. */
export interface Request {
  readonly url: string;
  readonly method?: "GET" | "DELETE" | "OPTIONS" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
}

/** Returns a request for the list of orders. */
export function listRequest(
  url: string,
  key: string,
  headers: Record<string, string> = {},
): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}`, ...headers } };
}

/** A complete response. */
export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/**
 * Sends a request on its own connection and reads the whole response.
 *
 * @throws {Error} if the status of the response is not `expectedStatus`.
 */
export async function send(sent: Request, expectedStatus?: number): Promise<Answer> {
  const { url, ...options } = sent;
  const { statusCode, headers, body } = await request(url, { ...options, reset: true });
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(piece as Buffer);
  if (expectedStatus !== undefined && statusCode !== expectedStatus) {
    throw new Error(`${url}: ${statusCode} instead of ${expectedStatus}.`);
  }
  return { status: statusCode, headers, body: Buffer.concat(pieces) };
}

/** The times of a list, in milliseconds. */
export interface ListTimes {
  /** From the request to the first byte of the response's body. */
  readonly firstByteMs: number;
  /** From the request to the last byte of the response's body. */
  readonly totalMs: number;
  /** The processor time that the server used, a multiple of 10. */
  readonly processorMs: number;
}

/**
 * Requests a list of orders and measures the times of the response. Keeps no part of the list.
 *
 * @throws {Error} if the list is incomplete: its last byte is not the closing bracket.
 */
export async function timeList(server: Server, { url, ...options }: Request): Promise<ListTimes> {
  const spentBefore = server.process.processorMs();
  const startMs = performance.now();
  const { statusCode, body } = await request(url, { ...options, reset: true });
  let firstByteMs = 0;
  let lastByte = "";
  for await (const piece of body) {
    firstByteMs ||= performance.now() - startMs;
    lastByte = (piece as Buffer).toString("latin1", (piece as Buffer).length - 1);
  }
  const totalMs = performance.now() - startMs;
  if (statusCode !== 200 || lastByte !== "]") throw new Error(`No complete list: ${statusCode}.`);
  return { firstByteMs, totalMs, processorMs: server.process.processorMs() - spentBefore };
}

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

/** Sends each request as soon as a connection is free. */
export async function sendLoad(load: Load): Promise<Answered> {
  const { requestAt, count, connections = CONNECTIONS } = load;
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
export async function sendOne(pool: Pool, { url, ...options }: Request): Promise<number> {
  const { pathname, search } = new URL(url);
  const path = pathname + search;
  const { statusCode, body } = await pool.request({ path, method: "GET", ...options });
  await body.arrayBuffer();
  return statusCode;
}

/**
 * Sends requests at a fixed rate, each on its own connection, even while earlier requests are still
 * in flight.
 *
 * @param everyMs the time between two requests in milliseconds.
 * @param expected the HTTP statuses that the responses may have.
 * @param isOver called before each request; `true` ends the load.
 * @throws {Error} if a response has another status, or does not arrive.
 */
export async function sendEvery(
  everyMs: number,
  expected: readonly number[],
  requestAt: (index: number) => Request,
  isOver: (index: number) => boolean,
): Promise<void> {
  const startMs = performance.now();
  const sent: Promise<Answer>[] = [];
  for (let index = 0; !isOver(index); index += 1) {
    const earlyMs = startMs + index * everyMs - performance.now();
    if (earlyMs > 0) await wait(earlyMs);
    const answer = send(requestAt(index));
    answer.catch(() => {});
    sent.push(answer);
  }
  const others = (await Promise.all(sent)).filter(({ status }) => !expected.includes(status));
  if (others.length > 0) throw new Error(`${others.length} answers had ${others[0]?.status}.`);
}

/** Sends requests with a key until the service bans the key. */
export async function provokeBan(banned: Request): Promise<void> {
  const deadline = Date.now() + BAN_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if ((await send(banned)).body.includes("api_key_banned")) return;
    await wait(10);
  }
  throw new Error("The key was not banned.");
}

/** Returns the operations that a counting service has counted since the previous call. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}
