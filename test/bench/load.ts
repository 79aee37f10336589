import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import type { Operations } from "../worker/operations/operations.ts";
import type { Server } from "./server.ts";

export const CONNECTIONS = 32;
const BAN_TIMEOUT_MS = 30_000;

export interface Request {
  readonly url: string;
  readonly method?: "GET" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
}

export function listRequest(
  url: string,
  key: string,
  headers: Record<string, string> = {},
): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}`, ...headers } };
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Sends a request on its own connection. Throws if the status is not `expectedStatus`. */
export async function send(sent: Request, expectedStatus?: number): Promise<Answer> {
  const { url, ...options } = sent;
  const { statusCode, headers, body } = await request(url, { ...options, reset: true });
  const bytes = Buffer.from(await body.arrayBuffer());
  if (expectedStatus !== undefined && statusCode !== expectedStatus) {
    throw new Error(`${url}: ${statusCode} instead of ${expectedStatus}.`);
  }
  return { status: statusCode, headers, body: bytes };
}

/** The times from the request to the first and last byte, and the server's processor time. */
export type ListTimes = Readonly<Record<"firstByteMs" | "totalMs" | "processorMs", number>>;

/** Requests a list and returns its times. Throws for another status, or if the list is cut off. */
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

/**
 * Sends the request `count` times over `connections` connections. Returns the requests per
 * second. Throws if a status is not `expectedStatus`.
 */
export async function requestRate(
  sent: Request,
  count: number,
  connections: number,
  expectedStatus: number,
): Promise<number> {
  const { url } = sent;
  // Opens new connections for each load, because Workers close idle connections.
  const pool = new Pool(new URL(url).origin, { connections });
  let left = count;
  const sendUntilNoneIsLeft = async () => {
    while (left-- > 0) {
      const status = await sendOne(pool, sent);
      if (status !== expectedStatus) throw new Error(`${url}: ${status}, not ${expectedStatus}.`);
    }
  };
  try {
    const startMs = performance.now();
    await Promise.all(Array.from({ length: connections }, sendUntilNoneIsLeft));
    return count / ((performance.now() - startMs) / 1_000);
  } finally {
    await pool.destroy();
  }
}

export async function sendOne(pool: Pool, { url, ...options }: Request): Promise<number> {
  const { pathname, search } = new URL(url);
  const path = pathname + search;
  const { statusCode, body } = await pool.request({ path, method: "GET", ...options });
  await body.arrayBuffer();
  return statusCode;
}

/**
 * Sends a request every `everyMs` milliseconds, even while others are in flight, until `isOver`
 * returns true. Then waits for all responses.
 *
 * @throws an Error if the status of a response is not in `expected`.
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

export async function provokeBan(banned: Request): Promise<void> {
  const deadline = Date.now() + BAN_TIMEOUT_MS;
  while (Date.now() < deadline) {
    if ((await send(banned)).body.includes("api_key_banned")) return;
    await wait(10);
  }
  throw new Error("The key was not banned.");
}

/** Returns the operations that `counted-service.ts` has counted since the previous call. */
export async function operationsSince(server: Server): Promise<Operations> {
  const response = await fetch(`${server.url}/operations`);
  return (await response.json()) as Operations;
}
