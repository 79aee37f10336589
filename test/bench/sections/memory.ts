import { type Bench, listRequest } from "../bench.ts";
import { timeAnswer } from "../http.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";
import { Server } from "../server.ts";

const MEBIBYTE = 2 ** 20;

/** The peak memory of a process at two moments, in MiB. */
interface Peak {
  /** The peak after the last byte of the response. */
  readonly answered: number;
  /**
   * The peak after the service has cached the list. Locally this peak includes the cache, which
   * Miniflare keeps in the same process.
   */
  readonly cached: number;
}

/**
 * Compares the peak memory of a process that has sent a long list with one that has sent a short
 * list. Both processes are new and begin with an empty cache.
 */
export async function memory(bench: Bench): Promise<Result[]> {
  const [few, many] = [bench.orders / 10, bench.orders];
  bench.say("memory, in a fresh process each");
  const figures = await takeTurns(bench.rounds, {
    small: () => peakOf(bench, few),
    large: () => peakOf(bench, many),
  });
  const peaks = (name: keyof typeof figures, when: keyof Peak) =>
    figures[name].map((peak) => peak[when]);
  const line = (what: string, large: number[], small: number[]): Omit<Result, "target"> => ({
    what: `Peak memory, ${what}`,
    service: medianText(large, "MiB"),
    peer: medianText(small, "MiB"),
    ratio: spreadOf(ratios(large, small)),
  });
  const against = `a list of ${number(many)} against one of ${number(few)}`;
  return [
    {
      ...line(against, peaks("large", "answered"), peaks("small", "answered")),
      target: { atMost: 1.5 },
    },
    {
      ...line(
        `${against}, with the filling of the local cache`,
        peaks("large", "cached"),
        peaks("small", "cached"),
      ),
      target: null,
    },
  ];
}

async function peakOf(bench: Bench, orders: number): Promise<Peak> {
  const store = await bench.store(orders);
  await using server = await Server.startWithoutCache(await bench.service(), {
    store: store.folder,
    hasObjects: true,
  });
  await timeAnswer(listRequest(server.url, store.key));
  const answered = server.process.peakBytes() / MEBIBYTE;
  await server.process.idle();
  return { answered, cached: server.process.peakBytes() / MEBIBYTE };
}
