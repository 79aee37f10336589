import { setTimeout as wait } from "node:timers/promises";
import { Pool } from "undici";
import { generateSecret } from "../../../src/operator/key-store/secret.ts";
import type { Bench } from "../bench.ts";
import { ratiosOf, takeTurns } from "../compare.ts";
import { listRequest, type Request, sendEvery, sendOne } from "../load.ts";
import { medianText, type Result } from "../report.ts";

const INVENTED_KEYS = 1_000;
/** The interval between requests with invented keys: 200 requests a second. */
const INVENTED_EVERY_MS = 5;
/** The pause of the client with a valid key after each response. */
const PAUSE_MS = 5;

/**
 * Returns a function that creates list requests with invented keys. Each `turn` has its own client
 * address, so no earlier turn has used up the limit of that address.
 */
function invented(url: string, turn: number): (index: number) => Request {
  const headers = { "CF-Connecting-IP": `198.51.${Math.floor(turn / 256)}.${turn % 256}` };
  const keys = Array.from({ length: INVENTED_KEYS }, generateSecret);
  return (index) => listRequest(url, keys[index] ?? "", headers);
}

/** Measures how much slower a well-behaved client becomes while 1,000 invented keys are tried. */
export async function inventedKeys(bench: Bench): Promise<Result[]> {
  await using server = await bench.serve();
  const { url } = server;
  const list = listRequest(url, bench.keys.unlimited[0]?.key ?? "");
  bench.say("a well-behaved client beside invented keys");
  let turn = 0;
  const flood = () => {
    const isOver = (index: number) => index === INVENTED_KEYS;
    return sendEvery(INVENTED_EVERY_MS, [401, 429], invented(url, turn++), isOver);
  };
  const { usual, flooded } = await takeTurns(bench.rounds, {
    usual: () => p95Beside(wait(INVENTED_KEYS * INVENTED_EVERY_MS), list),
    flooded: () => p95Beside(flood(), list),
  });
  const result = {
    what: "A well-behaved client's p95 beside 200 invented keys a second, as a multiple of its p95 without them",
    service: medianText(flooded, "ms"),
    peer: medianText(usual, "ms"),
    ratio: ratiosOf(flooded, usual),
    target: { atMost: 2 },
  };
  return [result];
}

/** Repeats a request until `work` ends. Returns the 95th percentile of the response times in ms. */
async function p95Beside(work: Promise<unknown>, request: Request): Promise<number> {
  let isDone = false;
  const stop = () => {
    isDone = true;
  };
  work.then(stop, stop);
  const pool = new Pool(new URL(request.url).origin, { connections: 1 });
  const times: number[] = [];
  while (!isDone) {
    const startMs = performance.now();
    const status = await sendOne(pool, request);
    times.push(performance.now() - startMs);
    if (status !== 200) throw new Error(`The well-behaved client was answered ${status}.`);
    await wait(PAUSE_MS);
  }
  await pool.destroy();
  await work;
  times.sort((one, other) => one - other);
  return times[Math.floor(times.length * 0.95)] ?? Number.NaN;
}
