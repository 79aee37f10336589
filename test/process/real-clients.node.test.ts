import { execFile } from "node:child_process";
import { text } from "node:stream/consumers";
import { promisify } from "node:util";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";
import { expect, test } from "vitest";
import { createKeys } from "./create-keys.ts";
import { advanceClock, CLOCKED_SERVICE, ServedStore } from "./worker-server.ts";

/** The remaining seconds of each key's minute window when the clients send their requests. */
const LEFT_SECONDS = 5;

type Headers = Readonly<Record<string, string>>;
/** Each client lists the orders with its default retries. */
const clients: Readonly<Record<string, (url: string, headers: Headers) => Promise<unknown>>> = {
  curl: (url, headers) => {
    const options = Object.entries(headers).flatMap(([name, value]) => ["-H", `${name}: ${value}`]);
    return promisify(execFile)("curl", ["-sS", "--fail", "--retry", "3", ...options, url]);
  },
  ky: (url, headers) => ky.get(url, { headers }).json(),
  undici: (url, headers) => listWithUndici(url, headers, {}),
  hastyUndici: (url, headers) => listWithUndici(url, headers, { maxTimeout: 2_000 }),
};
const names = Object.keys(clients);
const store = new ServedStore();

async function listWithUndici(url: string, headers: Headers, options: { maxTimeout?: number }) {
  const dispatcher = new RetryAgent(new Agent(), options);
  const { statusCode, body } = await request(url, { dispatcher, headers });
  await text(body);
  await dispatcher.close();
  expect(statusCode).toBe(200);
}

// All clients run at the same time, so that the test waits only once for the end of the windows.
test("curl, ky and undici wait for Retry-After, undici only up to its maxTimeout, and none is banned", async () => {
  const limits = { perMinute: 2, perDay: 100_000 };
  const keys = await createKeys(
    store.path,
    Object.fromEntries(names.map((name) => [name, limits])),
  );
  const service = await store.serve(CLOCKED_SERVICE, { REQUEST_LOG: "all" });
  const url = `${service.url}/v1/store/orders`;
  const headersOf = (name: string) => ({
    Authorization: `Bearer ${keys[name]}`,
    "X-Request-Id": name,
  });
  const startMs = performance.now();
  const spend = async (name: string) => {
    for (let sent = 0; sent < limits.perMinute; sent += 1) {
      await (await fetch(url, { headers: headersOf(name) })).arrayBuffer();
    }
  };
  await Promise.all(names.map(spend));
  const elapsedSeconds = (performance.now() - startMs) / 1_000;
  await advanceClock(service, 60 - LEFT_SECONDS - elapsedSeconds);
  await Promise.all(Object.entries(clients).map(([name, list]) => list(url, headersOf(name))));

  const log = (await (await fetch(`${service.url}/log`)).json()) as [string][];
  const lines = log.map(([line]) => JSON.parse(line) as { requestId: string; status: number });
  const statuses = Map.groupBy(lines, ({ requestId }) => requestId);
  const of = (name: string) => statuses.get(name)?.map(({ status }) => status) ?? [];
  // A client that did not wait would have been refused more often.
  for (const name of names.slice(0, 3)) expect(of(name), name).toEqual([200, 200, 429, 200]);
  expect(of("hastyUndici").slice(0, 4)).toEqual([200, 200, 429, 429]);
  expect(of("hastyUndici").at(-1)).toBe(200);
  expect(of("hastyUndici").length).toBeLessThanOrEqual(8);
  expect(JSON.stringify(log)).not.toContain("api_key_banned");
});
