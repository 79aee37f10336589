import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];

const MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

/** What Chromium does on its own account, which no page has asked for. */
const QUIET = [
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

/**
 * The Chromium of this machine: the one that `CHROMIUM_PATH` names, or else the first in `PATH`.
 *
 * @throws {Error} where `CHROMIUM_PATH` names nothing.
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

/** Starts it without a window. Root, as in a container, can only run it without its sandbox. */
export function launchChromium(executablePath: string): Promise<Browser> {
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({ executablePath, args: QUIET, chromiumSandbox: !isRoot });
}
