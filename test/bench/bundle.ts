import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { PROJECT_ROOT, runWrangler } from "../../src/cli/wrangler.ts";

const BENCH = "test/bench";

/** A Worker with everything that it imports. */
export interface Bundle {
  /** The path of its script. */
  readonly script: string;
  /** The paths of the WebAssembly that it imports. */
  readonly wasm: readonly string[];
  readonly compatibilityDate: string;
}

/** Bundles the service itself, just as a deployment does. */
export function bundleService(folder: string): Promise<Bundle> {
  return bundle(folder, "service", "wrangler.toml", []);
}

/** Bundles a Worker of the benchmark, such as `peers/hello`. */
export function bundleWorker(folder: string, name: string): Promise<Bundle> {
  return bundle(folder, name, join(BENCH, "wrangler.toml"), [join(BENCH, `${name}.ts`)]);
}

async function bundle(
  folder: string,
  name: string,
  config: string,
  script: readonly string[],
): Promise<Bundle> {
  const outdir = join(folder, name);
  const options = ["--dry-run", "--config", config, "--env=", "--outdir", outdir];
  await runWrangler(["deploy", ...script, ...options]);
  return {
    script: join(outdir, `${basename(script[0] ?? "index.ts", ".ts")}.js`),
    wasm: globSync(join(outdir, "*.wasm")),
    compatibilityDate: await compatibilityDateIn(config),
  };
}

async function compatibilityDateIn(config: string): Promise<string> {
  const toml = await readFile(join(PROJECT_ROOT, config), "utf8");
  const date = /^compatibility_date = "(?<date>[\d-]+)"$/m.exec(toml)?.groups?.["date"];
  if (date === undefined) throw new Error(`${config} has no compatibility_date.`);
  return date;
}
