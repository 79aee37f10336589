import type { Bench, Version } from "../bench.ts";
import type { Worker } from "../bundle.ts";
import { compareRates, type Side } from "../compare.ts";
import { CONNECTIONS, listRequest, operationsSince, requestRate } from "../load.ts";
import { medianText, type Result, spreadOf } from "../report.ts";

const COUNTED_REQUESTS = 3_000;

const TRAFFIC = [
  { keys: 1, connections: CONNECTIONS },
  { keys: 1, connections: 1 },
  { keys: 64, connections: CONNECTIONS },
];

/** As many connections as one busy key has. */
const BUSY = 256;

/** Measures the rows written and the object's calls for an admission, and compares the rates. */
export async function hotKey(bench: Bench): Promise<Result[]> {
  const results = [
    await countedPerAdmission(bench, "objectRowsWritten", CONNECTIONS),
    await countedPerAdmission(bench, "objectCalls", BUSY),
  ];
  const traffic =
    (keys: number, worker?: Worker) =>
    (version: Version): Side => ({
      start: () => bench.serve(worker === undefined ? { version } : { version, worker }),
      prepare: async ({ url }) => {
        const requests = bench.keys.unlimited
          .slice(0, keys)
          .map(({ key }) => listRequest(url, key));
        return (index) => requests[index % keys]!;
      },
      status: 200,
    });
  for (const { keys, connections } of TRAFFIC) {
    const side = traffic(keys);
    results.push(
      await compareRates(bench, {
        what: `Admitted list of ten, keys: ${keys}, connections: ${connections}: rate, as a multiple of the baseline's`,
        atLeast: 0.97,
        connections,
        service: side("today"),
        peer: side("baseline"),
      }),
    );
  }
  const slow = traffic(1, "observed/slow-limiter");
  results.push(
    await compareRates(bench, {
      what: `Admitted list of ten, keys: 1, connections: ${BUSY}, a Durable Object that takes 5 ms for each call: rate, as a multiple of the baseline's`,
      atLeast: 5,
      connections: BUSY,
      service: slow("today"),
      peer: slow("baseline"),
    }),
  );
  return results;
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
    await requestRate({ requestAt: () => request, count: COUNTED_REQUESTS, connections }, 200);
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
