import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { wranglerCommand } from "../../src/operator/wrangler.ts";
import { runCommand } from "./run-command.ts";

/** The service, or a Worker of the benchmark: a path in `test/bench` without `.ts`. */
export type Worker = "service" | `observed/${string}` | `peers/${string}`;

/** The files of a bundled Worker. */
export interface Bundle {
  /** The path of the bundled script. */
  readonly script: string;
  /** The paths of the WebAssembly modules that the script imports. */
  readonly wasm: readonly string[];
  readonly compatibilityDate: string;
}

/**
 * Bundles a Worker exactly as a deployment does.
 *
 * @param root the checkout that contains the Worker.
 * @param folder the folder for the bundle.
 */
export async function bundleWorker(worker: Worker, root: string, folder: string): Promise<Bundle> {
  const isService = worker === "service";
  const script = isService ? [] : [join("test/bench", `${worker}.ts`)];
  const config = isService ? "wrangler.toml" : "test/bench/wrangler.toml";
  const outdir = join(folder, worker);
  const options = ["--dry-run", "--config", config, "--env=", "--outdir", outdir];
  const { command, args } = wranglerCommand(["deploy", ...script, ...options]);
  await runCommand(command, args, root);
  return {
    script: join(outdir, `${isService ? "index" : basename(worker)}.js`),
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
