import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { PROJECT_ROOT, wranglerCommand } from "../../src/operator/wrangler.ts";
import { runCommand } from "./run-command.ts";

const BENCH = "test/bench";

/** The files of a bundled Worker. */
export interface Bundle {
  /** The path of the bundled script. */
  readonly script: string;
  /** The paths of the WebAssembly modules that the script imports. */
  readonly wasm: readonly string[];
  readonly compatibilityDate: string;
}

/**
 * Bundles the service exactly as a deployment does.
 *
 * @param root the checkout whose service is bundled; by default this checkout.
 */
export function bundleService(folder: string, root = PROJECT_ROOT): Promise<Bundle> {
  return bundle(root, join(folder, "service"), "wrangler.toml", []);
}

/** Bundles a Worker of the benchmark, such as `peers/hello`. */
export function bundleWorker(folder: string, name: string): Promise<Bundle> {
  const script = join(BENCH, `${name}.ts`);
  return bundle(PROJECT_ROOT, join(folder, name), join(BENCH, "wrangler.toml"), [script]);
}

async function bundle(
  root: string,
  outdir: string,
  config: string,
  script: readonly string[],
): Promise<Bundle> {
  const options = ["--dry-run", "--config", config, "--env=", "--outdir", outdir];
  const { command, args } = wranglerCommand(["deploy", ...script, ...options]);
  await runCommand(command, args, root);
  return {
    script: join(outdir, `${basename(script[0] ?? "index.ts", ".ts")}.js`),
    wasm: globSync(join(outdir, "*.wasm")),
    compatibilityDate: await compatibilityDateIn(join(root, config)),
  };
}

/** Reads the compatibility date of a wrangler configuration. */
export async function compatibilityDateIn(config: string): Promise<string> {
  const toml = await readFile(config, "utf8");
  const date = /^compatibility_date = "(?<date>[\d-]+)"$/m.exec(toml)?.groups?.["date"];
  if (date === undefined) throw new Error(`${config} has no compatibility_date.`);
  return date;
}
