import { execFile, spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { PROJECT_ROOT, QUIET_WRANGLER, wranglerCommand } from "../../src/operator/wrangler.ts";

/** The name of a Worker: the service, or a path in `test/bench` without the extension `.ts`. */
export type Worker = "service" | `observed/${string}` | `peers/${string}`;

export interface Bundle {
  readonly script: string;
  readonly wasm: readonly string[];
  readonly compatibilityDate: string;
}

/** Bundles a Worker of the checkout `root` into `folder`, exactly as a deployment does. */
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

export async function compatibilityDateIn(config: string): Promise<string> {
  const toml = await readFile(config, "utf8");
  const date = /^compatibility_date = "(?<date>[\d-]+)"$/m.exec(toml)?.groups?.["date"];
  if (date === undefined) throw new Error(`${config} has no compatibility_date.`);
  return date;
}

/** The earlier commit with which the benchmark compares the service. */
export const BASELINE_COMMIT = "451a601";

/** Checks out `BASELINE_COMMIT` as a git worktree at `root`, and installs its npm packages. */
export async function checkOutBaseline(root: string): Promise<void> {
  const worktree = ["worktree", "add", "--detach", root, BASELINE_COMMIT];
  await runCommand("git", worktree, PROJECT_ROOT);
  await runCommand("npm", ["ci", "--workspace", "src/client", "--include-workspace-root"], root);
}

export function removeBaseline(root: string): void {
  spawnSync("git", ["worktree", "remove", "--force", root], { cwd: PROJECT_ROOT });
}

/** Runs a command. Throws an error with the command's stderr if its exit status is not 0. */
export async function runCommand(
  command: string,
  args: readonly string[],
  cwd: string,
): Promise<void> {
  const env = { ...process.env, ...QUIET_WRANGLER };
  await promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 });
}
