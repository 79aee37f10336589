import type { Bench } from "../bench.ts";
import { fasterLists, takeTurns } from "../compare.ts";
import { number, type Result } from "../report.ts";
import { timeColdList } from "./large-list.ts";

/**
 * Compares two implementations of the loop that expands stored orders to JSON: the WebAssembly
 * of the service, and TypeScript. Measures the first list of a new process with an empty cache.
 */
export async function expansion(bench: Bench): Promise<Result[]> {
  bench.say(`a cold list of ${bench.orders}, without WebAssembly and with it`);
  const { service, peer } = await takeTurns(bench.rounds, {
    service: () => timeColdList(bench),
    peer: () => timeColdList(bench, "today", "peers/plain-expansion-service"),
  });
  const what = `${number(bench.orders)} orders, cold: speed, as a multiple of that with the loop in TypeScript`;
  return [fasterLists(what, { service, peer }, 1.5)];
}
