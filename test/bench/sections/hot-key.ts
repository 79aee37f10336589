import type { Bench, Version } from "../bench.ts";
import { compareRates, type Side } from "../compare.ts";
import { CONNECTIONS, listRequest, requestRate } from "../load.ts";
import { operationsSince } from "../operations.ts";
import { medianText, type Result, spreadOf } from "../report.ts";

const COUNTED_REQUESTS = 3_000;

/** Kinds of traffic: with how many keys, and on how many connections. */
const TRAFFIC = [
  { keys: 1, connections: CONNECTIONS },
  { keys: 1, connections: 1 },
  { keys: 64, connections: CONNECTIONS },
];

/**
 * Measures admitted lists of ten orders: the rows written per admission, and the rate compared with
 * the baseline commit's rate.
 */
export async function hotKey(bench: Bench): Promise<Result[]> {
  const results = [await rowsForAnAdmission(bench)];
  for (const { keys, connections } of TRAFFIC) {
    const side = (version: Version): Side => ({
      start: () => bench.serve({ version }),
      prepare: async ({ url }) => {
        const requests = bench.keys.unlimited
          .slice(0, keys)
          .map(({ key }) => listRequest(url, key));
        return (index) => requests[index % keys]!;
      },
      status: 200,
    });
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
  return results;
}

async function rowsForAnAdmission(bench: Bench): Promise<Result> {
  await using server = await bench.serve({ worker: "observed/counted-service" });
  const request = listRequest(server.url, bench.keys.unlimited[0]?.key ?? "");
  bench.say("counting the rows written for an admission");
  const rows: number[] = [];
  for (let round = 0; round <= bench.rounds; round += 1) {
    await operationsSince(server);
    await requestRate({ requestAt: () => request, count: COUNTED_REQUESTS }, 200);
    const { objectRowsWritten } = await operationsSince(server);
    if (round > 0) rows.push(objectRowsWritten / COUNTED_REQUESTS);
  }
  return {
    what: `Admitted list of ten, keys: 1, connections: ${CONNECTIONS}: rows written for an admission`,
    service: medianText(rows, "rows"),
    peer: "",
    ratio: spreadOf(rows),
    target: { atMost: 0.3 },
  };
}
