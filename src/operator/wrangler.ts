import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { text } from "node:stream/consumers";
import { stripVTControlCharacters } from "node:util";

const WRANGLER_PACKAGE = createRequire(import.meta.url).resolve("wrangler/package.json");
const WRANGLER_BIN = join(dirname(WRANGLER_PACKAGE), "bin", "wrangler.js");

/** The folder of `wrangler.toml`, in which wrangler runs. */
export const PROJECT_ROOT = join(import.meta.dirname, "..", "..");

/** The environment variable with the output folder of the static files. `npm start` sets it. */
export const SITE_FOLDER = "STORE_ORDERS_SITE";

/** Environment variables that turn off wrangler's banner, colours and reports to Cloudflare. */
export const QUIET_WRANGLER: NodeJS.ProcessEnv = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_SEND_ERROR_REPORTS: "false",
  WRANGLER_HIDE_BANNER: "true",
  FORCE_COLOR: "0",
};

export type WranglerOutput = Readonly<Record<"stdout" | "stderr", string>>;

/** Returns the command that runs wrangler with this Node: the Node in PATH can be too old. */
export function wranglerCommand(args: readonly string[]): { command: string; args: string[] } {
  return { command: process.execPath, args: [WRANGLER_BIN, ...args] };
}

/**
 * Runs wrangler in the project's root and waits until it ends. Wrangler has no terminal and does not
 * receive its Ctrl+C, so it finishes its work.
 *
 * @param env additional environment variables.
 * @throws an Error with wrangler's last error message if the exit status is not 0.
 */
export async function runWrangler(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<WranglerOutput> {
  const wrangler = wranglerCommand(args);
  const child = spawn(wrangler.command, wrangler.args, {
    cwd: PROJECT_ROOT,
    env: { ...process.env, ...QUIET_WRANGLER, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const [[status, signal], stdout, stderr] = await Promise.all([
    once(child, "close") as Promise<[number | null, NodeJS.Signals | null]>,
    text(child.stdout),
    text(child.stderr),
  ]);
  if (status === 0) return { stdout, stderr };
  throw new Error(
    errorMessage({ stdout, stderr }) ?? `wrangler ended with ${status ?? signal}: ${stderr}`,
  );
}

/** Returns wrangler's last error: with `--json` a JSON object on stdout, else `[ERROR]` on stderr. */
function errorMessage({ stdout, stderr }: WranglerOutput): string | undefined {
  const json = /^\{\s*"error":[^]*^\}/m.exec(stdout)?.[0];
  if (json !== undefined) {
    const { error } = JSON.parse(json) as { error: { text?: string; notes?: { text: string }[] } };
    return [error.text ?? "", ...(error.notes ?? []).map((note) => note.text)].join("\n");
  }
  const blocks = stripVTControlCharacters(stderr).matchAll(/^✘ \[ERROR\] (.*(?:\n(?!\S).*)*)/gm);
  return [...blocks].at(-1)?.[1]?.replaceAll(/\n\s+/g, "\n").trim();
}
