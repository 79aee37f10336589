import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { type Browser, chromium } from "playwright-core";
import { PATIENCE } from "../support/patience.ts";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"];
const MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";

/** Finds Chromium or Chrome. @throws an Error if there is no file at `CHROMIUM_PATH`. */
export function findChromium(): string | undefined {
  const named = process.env["CHROMIUM_PATH"];
  if (named && !existsSync(named)) throw new Error(`CHROMIUM_PATH: there is nothing at ${named}`);
  const folders = (process.env["PATH"] ?? "").split(delimiter);
  const paths = folders.flatMap((folder) => NAMES.map((name) => join(folder, name)));
  return named || [...paths, MAC].find((path) => existsSync(path));
}

/** Starts Chromium without a window. As root, it would refuse to start with its sandbox. */
export function launchChromium(executablePath: string): Promise<Browser> {
  const isRoot = process.getuid?.() === 0;
  return chromium.launch({ executablePath, chromiumSandbox: !isRoot, ...PATIENCE });
}
