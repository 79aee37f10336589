import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { runWrangler } from "../../../src/operator/wrangler.ts";
import type { Bench } from "../bench.ts";
import { number, type Result } from "../report.ts";

/**
 * Measures the size of the service's bundle, and the startup time of an isolate with `wrangler
 * check startup`.
 */
export async function size(bench: Bench): Promise<Result[]> {
  const script = await readFile((await bench.bundle("service")).script);
  bench.say("profiling the start");
  const outfile = join(bench.folder, "startup.cpuprofile");
  const { stdout } = await runWrangler(["check", "startup", "--env=", "--outfile", outfile]);
  const active = /Active: (?<time>[\d.]+ ms)/.exec(stdout)?.groups?.["time"] ?? "unknown";
  const window = /Profile window: (?<time>[\d.]+ ms)/.exec(stdout)?.groups?.["time"] ?? "unknown";
  return [
    {
      what: "Bundle",
      service: `${number(script.length / 1_024)} KiB`,
      peer: `${number(gzipSync(script).length / 1_024)} KiB with gzip`,
      ratio: null,
      target: null,
    },
    {
      what: "Start of an isolate (`wrangler check startup`)",
      service: `${active} of computing`,
      peer: `within ${window}`,
      ratio: null,
      target: null,
    },
  ];
}
