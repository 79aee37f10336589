import { execFile } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { promisify } from "node:util";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";
import { afterAll, beforeAll, expect, test } from "vitest";

/** The time after a client's first request for which the server refuses its requests. */
const REFUSED_MS = 1_990;

/** The responses to each client: the status, and the milliseconds since its first request. */
const answers = new Map<string, { readonly status: number; readonly atMs: number }[]>();
const begunMs = new Map<string, number>();
let url: string;

/** Answers like the service when the minute window of a client's key is full. */
const server = createServer(({ url: client = "" }, response) => {
  const nowMs = performance.now();
  const atMs = nowMs - (begunMs.get(client) ?? nowMs);
  begunMs.set(client, nowMs - atMs);
  const status = atMs < REFUSED_MS ? 429 : 200;
  const retryAfter = { "Retry-After": Math.ceil((REFUSED_MS - atMs) / 1_000) };
  answers.set(client, [...(answers.get(client) ?? []), { status, atMs }]);
  response.writeHead(status, status === 429 ? retryAfter : {}).end("[]");
});
beforeAll(async () => {
  await once(server.listen(0, "127.0.0.1"), "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => server.close().closeAllConnections());

const withUndici = (path: string, options?: ConstructorParameters<typeof RetryAgent>[1]) =>
  request(url + path, { dispatcher: new RetryAgent(new Agent(), options) });

test.concurrent.each([
  ["curl", () => promisify(execFile)("curl", ["-sS", "--fail", "--retry", "3", `${url}/curl`])],
  ["ky", () => ky.get(`${url}/ky`).json()],
  ["undici", () => withUndici("/undici")],
])("%s waits for Retry-After", async (name, list) => {
  await list();
  expect(answers.get(`/${name}`)?.map(({ status }) => status)).toEqual([429, 200]);
});

test.concurrent("undici's RetryAgent retries early after a Retry-After beyond its maxTimeout", async () => {
  const { statusCode } = await withUndici("/hasty", { maxTimeout: 800 });
  expect(statusCode).toBe(200);
  const [, second] = answers.get("/hasty")!;
  expect(second).toMatchObject({ status: 429 });
  expect(second!.atMs).toBeLessThan(1_500);
});
