import type { Bench } from "../bench.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { copyStore } from "../store.ts";
import { type ListTimes, timeColdList } from "../timed-list.ts";

/**
 * Compares two implementations of the loop that expands stored orders to JSON: the WebAssembly
 * of the service, and TypeScript. Measures the first list of a new process with an empty cache.
 */
export async function expansion(bench: Bench): Promise<Result[]> {
  const store = await bench.store(bench.orders);
  const coldStore = { folder: await copyStore(store, "expansion"), key: store.key };
  const [webAssembly, typeScript] = [
    await bench.service(),
    await bench.worker("peers/plain-expansion-service"),
  ];
  bench.say(`a cold list of ${bench.orders}, without WebAssembly and with it`);
  const figures = await takeTurns(bench.rounds, {
    webAssembly: () => timeColdList(webAssembly, coldStore),
    typeScript: () => timeColdList(typeScript, coldStore),
  });
  const figure = (name: keyof typeof figures, of: keyof ListTimes) =>
    figures[name].map((times) => times[of]);
  const ratio = (of: keyof ListTimes) =>
    spreadOf(ratios(figure("typeScript", of), figure("webAssembly", of)));
  return [
    {
      what: `${number(bench.orders)} orders, cold: times faster than with the loop in TypeScript`,
      service: medianText(figure("webAssembly", "totalMs"), "ms"),
      peer: medianText(figure("typeScript", "totalMs"), "ms"),
      ratio: ratio("totalMs"),
      processorRatio: ratio("processorMs"),
      target: { atLeast: 1.5 },
    },
  ];
}
