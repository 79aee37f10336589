import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import ky from "ky";
import { Agent, request, RetryAgent } from "undici";
import { expect, it, vi } from "vitest";
import { createClient } from "../../src/client/index.ts";
import { quotaHeaders } from "../../src/rules/limits/headers.ts";
import { keyPolicy, SimulatedLimiter } from "../rules/limits/simulated-limiter.ts";
import { PATIENCE } from "../support/patience.ts";

/** Two values of `Retry-After`: within the two minutes of our client, and far beyond them. */
const ASKED = [100, 3_600];
/** The clients' own timeouts are shorter, and other timers too. */
const LEAST_WAIT_MS = 20_000;

const document = readFileSync("docs/limits.md", "utf8");

/** Describes what a client does, as the table does: it waits for so many seconds, or fails (`null`). */
function describeWaits(waits: readonly (number | null)[]): string {
  if (waits.every((wait) => wait === null)) return "does not retry";
  if (waits.every((wait, index) => (wait ?? 0) >= ASKED[index]!)) return "waits, however long";
  if (waits.includes(null)) return "waits, or fails at once if it is longer than two minutes";
  return `waits, but at most ${Math.max(...waits.map(Number))} s`;
}

it("docs/limits.md says what each of these clients does after a 429", async () => {
  let asked = 0;
  const limiter = new SimulatedLimiter(keyPolicy(1, 1_000));
  limiter.request();
  const headers = quotaHeaders(limiter.request());
  const server = createServer((_, response) => {
    response.writeHead(429, { ...headers, "Retry-After": asked }).end();
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const timers = vi.spyOn(globalThis, "setTimeout");
  const waitMs = () => timers.mock.calls.map(([, ms]) => ms ?? 0).find((ms) => ms >= LEAST_WAIT_MS);

  /** Waits until a client fails, or plans a wait. */
  const inProcess = async (ask: (signal: AbortSignal) => Promise<unknown>) => {
    timers.mockClear();
    const abort = new AbortController();
    let isOver = false;
    void Promise.allSettled([ask(abort.signal)]).then(() => (isOver = true));
    await vi.waitUntil(() => isOver || waitMs() !== undefined, PATIENCE);
    const ms = waitMs();
    abort.abort();
    return ms === undefined ? null : Math.floor(ms / 1_000);
  };
  const curl = async () => {
    const child = spawn("curl", ["-I", "--retry", "3", url]);
    let said = "";
    for await (const part of child.stderr) {
      const [, seconds] = /Will retry in (\d+) second/.exec((said += String(part))) ?? [];
      if (seconds === undefined) continue;
      child.kill();
      return Number(seconds);
    }
    return null;
  };
  const dispatcher = new RetryAgent(new Agent());
  const ours = createClient({ baseUrl: url, apiKey: "k", timeoutMs: 5_000 });
  const clients: Record<string, () => Promise<number | null>> = {
    "`fetch`": () => inProcess((signal) => fetch(url, { signal })),
    "`store-orders-client`": () => inProcess((signal) => ours.cancelOrder(1n, { signal })),
    "`curl --retry 3`": curl,
    ky: () => inProcess((signal) => ky(url, { signal })),
    "undici's `RetryAgent`": () => inProcess((signal) => request(url, { dispatcher, signal })),
  };
  for (const [name, ask] of Object.entries(clients)) {
    const waits: (number | null)[] = [];
    for (asked of ASKED) waits.push(await ask());
    expect(document.replaceAll(/ +/g, " ")).toContain(`| ${name} | ${describeWaits(waits)} |`);
  }
  timers.mockRestore();
  await dispatcher.destroy();
  server.close().closeAllConnections();
});
