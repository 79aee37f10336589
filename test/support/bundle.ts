import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { QUIET_WRANGLER, WRANGLER_BIN } from "../../src/operator/wrangler.ts";

export type Bundle = ReturnType<typeof bundleIn>;

/** Bundles a Worker exactly as a deployment does. */
export async function bundleWorker(root: string, entry: string, outdir: string): Promise<Bundle> {
  const args = [WRANGLER_BIN, "deploy", entry, "--dry-run", "--env=", "--outdir", outdir];
  await run(process.execPath, args, root);
  return bundleIn(outdir, entry, root);
}

/** Returns the bundle that was written to `outdir`. */
export function bundleIn(outdir: string, entry: string, root: string) {
  const toml = readFileSync(join(root, "wrangler.toml"), "utf8");
  return {
    script: join(outdir, `${basename(entry, ".ts")}.js`),
    wasm: globSync(join(outdir, "*.wasm")),
    compatibilityDate: /^compatibility_date = "([\d-]+)"$/m.exec(toml)![1]!,
  };
}

/** Runs a command and returns its stdout. Throws its stderr if its exit status is not 0. */
export async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, ...QUIET_WRANGLER };
  return (await promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 })).stdout;
}
