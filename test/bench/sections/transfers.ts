import { cp, rm } from "node:fs/promises";
import { join } from "node:path";
import { openLocalStore } from "../../../src/operator/database/local.ts";
import type { Bench } from "../bench.ts";
import { writeOrderFile } from "../order-file.ts";
import { peakBytesOf } from "../process-tree.ts";
import { medianText, number, type Result } from "../report.ts";
import { ratios, spreadOf, takeTurns } from "../rounds.ts";

const MEBIBYTE = 2 ** 20;
/**
 * The maximum number of rounds: an import and an export take half a minute, and their memory peaks
 * hardly vary.
 */
const MAX_ROUNDS = 3;

/**
 * Measures the peak memory of `orders import` and `orders export`, including their child processes.
 */
export async function transfers(bench: Bench): Promise<Result[]> {
  const [few, many] = [bench.orders / 10, bench.orders];
  const empty = join(bench.folder, "empty-store");
  await (await openLocalStore(empty))[Symbol.asyncDispose]();
  const files = { few: join(bench.folder, "few.ndjson"), many: join(bench.folder, "many.ndjson") };
  await writeOrderFile(files.few, few);
  await writeOrderFile(files.many, many);

  bench.say("memory of import and export");
  const figures = await takeTurns(Math.min(bench.rounds, MAX_ROUNDS), {
    few: () => transfer(empty, files.few),
    many: () => transfer(empty, files.many),
  });
  return (["import", "export"] as const).map((command) => {
    const [large, small] = [figures.many, figures.few].map((peaks) =>
      peaks.map((peak) => peak[command]),
    ) as [number[], number[]];
    return {
      what: `Peak memory, ${command} of ${number(many)} orders against ${number(few)}`,
      service: medianText(large, "MiB"),
      peer: medianText(small, "MiB"),
      ratio: spreadOf(ratios(large, small)),
      target: { atMost: 1.5 },
    };
  });
}

/**
 * Imports an order file into a copy of an empty store, then exports the orders. Returns the peak
 * memory of both commands in MiB.
 */
async function transfer(empty: string, file: string): Promise<{ import: number; export: number }> {
  const store = `${empty}-copy`;
  await cp(empty, store, { recursive: true });
  const peak = async (...args: string[]) =>
    (await peakBytesOf(["src/operator/main.ts", "orders", ...args, "--persist-to", store])) /
    MEBIBYTE;
  const peaks = { import: await peak("import", file), export: await peak("export", `${file}.out`) };
  await rm(store, { recursive: true });
  return peaks;
}
