import { execFile, spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { PROJECT_ROOT, QUIET_WRANGLER, wranglerCommand } from "../../src/operator/wrangler.ts";

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

/** The earlier commit with which the benchmark compares the service. */
export const BASELINE_COMMIT = "451a601";

/**
 * Checks out `BASELINE_COMMIT` as a git worktree and installs its npm packages.
 *
 * @param root the folder of the worktree, which must not exist.
 * @throws {Error} if git lacks the commit, or if the packages cannot be installed.
 */
export async function checkOutBaseline(root: string): Promise<void> {
  const worktree = ["worktree", "add", "--detach", root, BASELINE_COMMIT];
  await runCommand("git", worktree, PROJECT_ROOT);
  await runCommand("npm", ["ci", "--workspace", "src/client", "--include-workspace-root"], root);
}

/** Removes the worktree of the baseline commit from the disk and from git. */
export function removeBaseline(root: string): void {
  spawnSync("git", ["worktree", "remove", "--force", root], { cwd: PROJECT_ROOT });
}

/**
 * Runs a command, waits for its end and discards its stdout.
 *
 * @param cwd the working directory of the command.
 * @throws {Error} if the command cannot be started or its exit status is not 0. The message
 *   contains the command line and the command's stderr.
 */
export async function runCommand(
  command: string,
  args: readonly string[],
  cwd: string,
): Promise<void> {
  const env = { ...process.env, ...QUIET_WRANGLER };
  await promisify(execFile)(command, args, { cwd, env, maxBuffer: 2 ** 26 });
}
