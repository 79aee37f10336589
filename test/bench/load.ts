import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import { openList } from "../support/open-list.ts";
import type { Served } from "./checkout.ts";

export interface Request {
  readonly url: string;
  readonly method?: "GET" | "DELETE" | "PUT";
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export function listRequest({ url }: { readonly url: string }, key: string): Request {
  return { url: `${url}/v1/store/orders`, headers: { Authorization: `Bearer ${key}` } };
}

/** Sends a request on its own connection. Returns the body; throws for another status. */
export async function send(sent: Request, expectedStatus?: number): Promise<string> {
  const { url, ...options } = sent;
  const { statusCode, body } = await request(url, { ...options, reset: true });
  const text = await body.text();
  if (expectedStatus !== undefined && statusCode !== expectedStatus) {
    throw new Error(`${url}: ${statusCode} instead of ${expectedStatus}.`);
  }
  return text;
}

/** Requests a list and reads all of it. Throws for another status, or if the list is cut off. */
export async function readList(server: Served, key: string): Promise<void> {
  const { url, ...options } = listRequest(server, key);
  const { statusCode, body } = await request(url, { ...options, reset: true });
  let last: Buffer | undefined;
  for await (const piece of body) last = piece as Buffer;
  if (statusCode !== 200 || last?.at(-1) !== "]".charCodeAt(0)) {
    throw new Error(`No complete list: ${statusCode}.`);
  }
}

/** Sends a request `count` times over `connections` connections. */
export async function sendMany(
  { url, ...options }: Request,
  count: number,
  connections: number,
  expectedStatus: number,
): Promise<void> {
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
    await Promise.all(Array.from({ length: connections }, sendUntilNoneIsLeft));
  } finally {
    await pool.destroy();
  }
}

/** Opens lists, reads only the beginning of each answer, and closes them after a second. */
export async function leaveUnread(server: Served, keys: readonly string[]): Promise<void> {
  const sockets = keys.map((key) => openList(server, key));
  await Promise.all(sockets.map((socket) => once(socket, "readable")));
  await wait(1_000);
  for (const socket of sockets) socket.destroy();
}
