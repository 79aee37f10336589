import type { Bench, Version } from "../bench.ts";
import { compareRates, type Side } from "../compare.ts";
import { CONNECTIONS, listRequest, operationsSince, requestRate } from "../load.ts";
import { medianText, type Result, spreadOf } from "../report.ts";

const COUNTED_REQUESTS = 3_000;

/** The number of connections that send requests with the busy key. */
const BUSY = 256;

/** Measures rows written and object calls per admission, and the rate with a slow object. */
export async function hotKey(bench: Bench): Promise<Result[]> {
  const slow = (version: Version): Side => ({
    start: () => bench.serve({ version, worker: "observed/slow-limiter" }),
    prepare: async ({ url }) => listRequest(url, bench.keys.unlimited[0]?.key ?? ""),
    status: 200,
  });
  return [
    await countedPerAdmission(bench, "objectRowsWritten", CONNECTIONS),
    await countedPerAdmission(bench, "objectCalls", BUSY),
    await compareRates(bench, {
      what: `Admitted list of ten, keys: 1, connections: ${BUSY}, a Durable Object that takes 5 ms for each call: rate, as a multiple of the baseline's`,
      atLeast: 5,
      connections: BUSY,
      service: slow("today"),
      peer: slow("baseline"),
    }),
  ];
}

async function countedPerAdmission(
  bench: Bench,
  counted: "objectRowsWritten" | "objectCalls",
  connections: number,
): Promise<Result> {
  await using server = await bench.serve({ worker: "observed/counted-service" });
  const request = listRequest(server.url, bench.keys.unlimited[0]?.key ?? "");
  const what = `Admitted list of ten, keys: 1, connections: ${connections}: ${counted} for an admission`;
  bench.say(what);
  const figures: number[] = [];
  for (let round = 0; round <= bench.rounds; round += 1) {
    await operationsSince(server);
    await requestRate(request, COUNTED_REQUESTS, connections, 200);
    const operations = await operationsSince(server);
    if (round > 0) figures.push(operations[counted] / COUNTED_REQUESTS);
  }
  return {
    what,
    service: medianText(figures, "each"),
    peer: "",
    ratio: spreadOf(figures),
    target: { atMost: 0.3 },
  };
}
