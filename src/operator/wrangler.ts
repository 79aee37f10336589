import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";

/** Run with this Node, because the Node in PATH can be too old. */
export const WRANGLER_BIN = join(
  createRequire(import.meta.url).resolve("wrangler/package.json"),
  "../bin/wrangler.js",
);

/** The folder of `wrangler.toml`, in which wrangler runs. */
export const PROJECT_ROOT = join(import.meta.dirname, "..", "..");

/** The environment variable with the output folder of the static files. `npm start` sets it. */
export const SITE_FOLDER = "STORE_ORDERS_SITE";

/** Environment variables with which wrangler prints results, but no banner and no colours. */
export const QUIET_WRANGLER: NodeJS.ProcessEnv = {
  WRANGLER_LOG: "log",
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  FORCE_COLOR: "0",
};

/**
 * Runs wrangler in the project's root with additional environment variables, and returns its stdout.
 * Wrangler does not receive the terminal's Ctrl+C, so it finishes its work.
 *
 * @throws an Error with wrangler's last error message if the exit status is not 0.
 */
export async function runWrangler(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const child = spawn(process.execPath, [WRANGLER_BIN, ...args], {
    cwd: PROJECT_ROOT,
    env: { ...process.env, ...QUIET_WRANGLER, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const closed = once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>;
  const outputs = [text(child.stdout), text(child.stderr)] as const;
  const [[status, signal], stdout, stderr] = await Promise.all([closed, ...outputs]);
  if (status === 0) return stdout;
  const errors = stripVTControlCharacters(stderr).matchAll(
    /^✘ \[ERROR\] (.*(?:\n(?!\S|\s*If you think).*)*)/gm,
  );
  const message = [...errors].at(-1)?.[1]?.replaceAll(/\n\s+/g, "\n").trim();
  throw new Error(message ?? `wrangler ended with ${status ?? signal}: ${stderr}`);
}
