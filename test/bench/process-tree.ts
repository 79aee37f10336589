import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { text } from "node:stream/consumers";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";

/** The interval between two samples of a command's memory, in milliseconds. */
const SAMPLE_MS = 50;

/**
 * Runs a command of the project, waits for its end and measures its memory in `/proc`.
 *
 * @returns the peak memory of the command and its descendants in bytes. Adds up the peaks of the
 *   processes that run at the same time, and returns the largest sum.
 */
export async function peakBytesOf(args: readonly string[]): Promise<number> {
  const child = spawn(process.execPath, args, {
    cwd: PROJECT_ROOT,
    stdio: ["ignore", "ignore", "pipe"],
  });
  let peak = 0;
  const timer = setInterval(() => {
    const peaks = descendants(child.pid ?? 0).map(peakOf);
    peak = Math.max(
      peak,
      peaks.reduce((sum, bytes) => sum + bytes, 0),
    );
  }, SAMPLE_MS);
  const [stderr, [status]] = await Promise.all([text(child.stderr), once(child, "close")]);
  clearInterval(timer);
  if (status !== 0) throw new Error(`${args.join(" ")} ended with ${status}: ${stderr}`);
  return peak;
}

/** Returns the ids of a process and of its descendants. */
function descendants(root: number): number[] {
  const processes = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: Number(field(name, "PPid")) }));
  const found = [root];
  for (const pid of found) {
    found.push(...processes.filter(({ parent }) => parent === pid).map((child) => child.pid));
  }
  return found;
}

function peakOf(pid: number): number {
  return Number(field(String(pid), "VmHWM")?.replace(" kB", "") ?? 0) * 1_024;
}

/** Reads a field of `/proc/PID/status` (proc(5)); returns `undefined` if the process has ended. */
function field(pid: string, name: string): string | undefined {
  try {
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    return new RegExp(`^${name}:\\s+(?<value>.*)$`, "m").exec(status)?.groups?.["value"];
  } catch {
    return undefined;
  }
}
