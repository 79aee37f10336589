import { type Bench, listRequest } from "../bench.ts";
import { timeAnswer } from "../http.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";

const MEBIBYTE = 2 ** 20;

/** The most memory that a fresh process takes for a scanned list, with what fills the cache after it. */
export async function memory(bench: Bench): Promise<Result[]> {
  const sizes = [bench.orders / 10, bench.orders] as const;
  bench.say("memory in a fresh process each");
  const peak = async (orders: number) => {
    const store = await bench.store(orders);
    await using server = await Server.start(await bench.service(), {
      store: store.folder,
      hasObjects: true,
    });
    await server.changeOrderList();
    await timeAnswer(listRequest(server.url, store.key));
    await server.process.idle();
    return server.process.peakBytes() / MEBIBYTE;
  };
  const { small, large } = await takeTurns(bench.rounds, {
    small: () => peak(sizes[0]),
    large: () => peak(sizes[1]),
  });
  return [
    {
      what: `Peak memory, ${number(sizes[1])} orders against ${number(sizes[0])}`,
      service: medianText(large, "MiB"),
      peer: medianText(small, "MiB"),
      ratio: spreadOf(ratios(large, small)),
      target: { atMost: 1.5 },
    },
  ];
}
