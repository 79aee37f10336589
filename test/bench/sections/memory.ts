import type { Bench, Version } from "../bench.ts";
import { ratiosOf, takeTurns } from "../compare.ts";
import { listRequest, timeList } from "../load.ts";
import { medianText, number, type Result } from "../report.ts";

const MEBIBYTE = 2 ** 20;

/**
 * Compares the peak memory of a process that has sent a long list with one that has sent a short
 * list, and with the baseline commit's peak. Every process is new and begins with an empty cache.
 */
export async function memory(bench: Bench): Promise<Result[]> {
  const [few, many] = [bench.orders / 10, bench.orders];
  bench.say("memory, in a new process each");
  const peaks = await takeTurns(bench.rounds, {
    few: () => peakOf(bench, few),
    many: () => peakOf(bench, many),
    baseline: () => peakOf(bench, many, "baseline"),
  });
  const line = (what: string, peer: readonly number[], atMost: number): Result => ({
    what: `Peak memory of a list of ${number(many)} orders, as a multiple of ${what}`,
    service: medianText(peaks.many, "MiB"),
    peer: medianText(peer, "MiB"),
    ratio: ratiosOf(peaks.many, peer),
    target: { atMost },
  });
  return [
    line(`that of a list of ${number(few)}`, peaks.few, 1.5),
    line("the baseline's", peaks.baseline, 1.05),
  ];
}

async function peakOf(bench: Bench, orders: number, version: Version = "today"): Promise<number> {
  await using server = await bench.serve({ version, orders });
  await timeList(server, listRequest(server.url, bench.keys.unlimited[0]?.key ?? ""));
  const peak = server.process.peakBytes() / MEBIBYTE;
  // Miniflare crashes if its process is stopped while the service fills the cache.
  await server.process.idle();
  return peak;
}
