import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

const MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

/** Options of Chromium that turn off features that no test needs, such as requests for updates. */
const QUIET = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/**
 * Finds Chromium on this machine: the file at `CHROMIUM_PATH`, the first Chromium or Chrome in
 * `PATH`, or Chrome in the folder where macOS installs it.
 *
 * @throws {Error} if there is no file at `CHROMIUM_PATH`.
 */
export function findChromium(): string | undefined {
  const named = process.env["CHROMIUM_PATH"];
  if (named) {
    if (!existsSync(named)) throw new Error(`CHROMIUM_PATH: there is nothing at ${named}`);
    return named;
  }
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const paths = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return [...paths, MAC].find((path) => existsSync(path));
}

/**
 * Starts Chromium without a window. Turns off its sandbox for root, for whom Chromium refuses to
 * start with a sandbox.
 */
export function launchChromium(executablePath: string): Promise<Browser> {
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({ executablePath, args: QUIET, chromiumSandbox: !isRoot });
}
