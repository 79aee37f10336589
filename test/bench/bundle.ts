import { execFile } from "node:child_process";
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { QUIET_WRANGLER, wranglerCommand } from "../../src/operator/wrangler.ts";

export interface Bundle {
  readonly script: string;
  readonly wasm: readonly string[];
  readonly compatibilityDate: string;
}

/**
 * Bundles a Worker exactly as a deployment does.
 *
 * @param script the Worker's source; `null` for the service.
 */
export async function bundleWorker(
  root: string,
  script: string | null,
  outdir: string,
): Promise<Bundle> {
  const options = ["--dry-run", "--env=", "--outdir", outdir];
  const target = script === null ? [] : [script];
  const { command, args } = wranglerCommand(["deploy", ...target, ...options]);
  await run(command, args, root);
  return {
    script: join(outdir, script === null ? "index.js" : basename(script).replace(/ts$/, "js")),
    wasm: globSync(join(outdir, "*.wasm")),
    compatibilityDate: await compatibilityDateIn(join(root, "wrangler.toml")),
  };
}

export async function compatibilityDateIn(config: string): Promise<string> {
  const toml = await readFile(config, "utf8");
  const date = /^compatibility_date = "(?<date>[\d-]+)"$/m.exec(toml)?.groups?.["date"];
  if (date === undefined) throw new Error(`${config} has no compatibility_date.`);
  return date;
}

/** Runs a command and returns its stdout. Throws its stderr if its exit status is not 0. */
export async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, ...QUIET_WRANGLER };
  return (await promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 })).stdout;
}
