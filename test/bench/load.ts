import { once } from "node:events";
import { setTimeout as wait } from "node:timers/promises";
import { Pool, request } from "undici";
import { openList } from "../support/open-list.ts";
import type { Served } from "./checkout.ts";

export const LIST = "/v1/store/orders";

const withKey = (key = "") =>
  ({ method: "GET", headers: { Authorization: `Bearer ${key}` } }) as const;

/**
 * Sends a request with the first key, on its own connection. Returns the end of the body. Throws for
 * another status than `expected`.
 */
export async function send(
  { url, keys }: Served,
  path: string,
  expected?: number,
  options: { readonly method?: "DELETE" | "PUT"; readonly body?: string } = {},
): Promise<string> {
  const sent = { ...withKey(keys[0]), ...options, reset: true };
  const { statusCode, body } = await request(url + path, sent);
  let end = "";
  for await (const piece of body) end = String(piece);
  if (statusCode !== (expected ?? statusCode)) throw new Error(`${statusCode}, not ${expected}.`);
  return end;
}

/** Requests a list and reads all of it. Throws for another status, or if the list is cut off. */
export async function readList(server: Served): Promise<void> {
  if (!(await send(server, LIST, 200)).endsWith("]")) throw new Error("The list was cut off.");
}

/** Requests the list `count` times over `connections` connections. */
export async function sendMany(
  { url, keys }: Served,
  count: number,
  connections: number,
  expected: number,
): Promise<void> {
  // Opens new connections for each load, because Workers close idle connections.
  const pool = new Pool(url, { connections });
  let left = count;
  const sendUntilNoneIsLeft = async () => {
    while (left-- > 0) {
      const { statusCode, body } = await pool.request({ ...withKey(keys[0]), path: LIST });
      await body.arrayBuffer();
      if (statusCode !== expected) throw new Error(`${statusCode}, not ${expected}.`);
    }
  };
  await Promise.all(Array.from({ length: connections }, sendUntilNoneIsLeft));
  await pool.destroy();
}

/** Opens lists with the keys in turn, reads only the beginnings, and closes them after a second. */
export const leavingUnread = (count: number) => async (server: Served) => {
  const { keys } = server;
  const sockets = Array.from({ length: count }, (_, n) => openList(server, keys[n % keys.length]!));
  await Promise.all(sockets.map((socket) => once(socket, "readable")));
  await wait(1_000);
  for (const socket of sockets) socket.destroy();
};
