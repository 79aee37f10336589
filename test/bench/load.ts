import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import type { Served } from "./checkout.ts";

export interface Request {
  readonly url: string;
  readonly method?: "GET" | "DELETE";
  readonly headers?: Readonly<Record<string, string>>;
}

export function listRequest({ url }: { readonly url: string }, key: string): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}` } };
}

/** Sends a request on its own connection. Returns the body; throws for another status. */
export async function send(sent: Request, expectedStatus?: number): Promise<Buffer> {
  const { url, ...options } = sent;
  const { statusCode, body } = await request(url, { ...options, reset: true });
  const bytes = Buffer.from(await body.arrayBuffer());
  if (expectedStatus !== undefined && statusCode !== expectedStatus) {
    throw new Error(`${url}: ${statusCode} instead of ${expectedStatus}.`);
  }
  return bytes;
}

/** Times from the request to the first and the last byte, and the server's processor time. */
export type ListTimes = Readonly<Record<"firstByteMs" | "totalMs" | "processorMs", number>>;

/** Requests a list and returns its times. Throws for another status, or if the list is cut off. */
export async function timeList(server: Served, key: string): Promise<ListTimes> {
  const { url, ...options } = listRequest(server, key);
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

/** Sends a request `count` times over `connections` connections. Returns the requests a second. */
export async function requestRate(
  { url, ...options }: Request,
  count: number,
  connections: number,
  expectedStatus: number,
): Promise<number> {
  const { origin, pathname: path } = new URL(url);
  // Opens new connections for each load, because Workers close idle connections.
  const pool = new Pool(origin, { connections });
  let left = count;
  const sendUntilNoneIsLeft = async () => {
    while (left-- > 0) {
      const { statusCode, body } = await pool.request({ path, method: "GET", ...options });
      await body.arrayBuffer();
      if (statusCode !== expectedStatus) throw new Error(`${url}: ${statusCode}.`);
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

/** Sends a request every `everyMs` milliseconds, even while others are in flight. */
export async function sendEvery(
  everyMs: number,
  expectedStatus: number,
  requestAt: (index: number) => Request,
  isOver: () => boolean,
): Promise<void> {
  const startMs = performance.now();
  const sent: Promise<unknown>[] = [];
  for (let index = 0; !isOver(); index += 1) {
    const earlyMs = startMs + index * everyMs - performance.now();
    if (earlyMs > 0) await wait(earlyMs);
    const answer = send(requestAt(index), expectedStatus);
    answer.catch(() => {});
    sent.push(answer);
  }
  await Promise.all(sent);
}

/** Opens a list and reads only the beginning of its answer. The caller destroys the socket. */
export async function openUnreadList({ url }: Served, key: string): Promise<Socket> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.on("error", () => {});
  socket.write(
    `GET /v1/store/orders HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  );
  await once(socket, "readable");
  return socket;
}
