import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/** The interval between two samples, in milliseconds. */
const SAMPLE_MS = 50;
/** A process is idle after this many samples without work. */
const IDLE_SAMPLES = 6;
/** Indexes into the fields of `/proc/PID/stat` after the name (proc(5)). */
const PARENT = 1;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;
/** The unit in which Linux reports processor time. */
const TICK_MS = 10;
const IDLE_TIMEOUT_MS = 120_000;

/** The workerd process of a server, measured in `/proc`. */
export class WorkerProcess {
  readonly #pid: number;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** The most memory that the process has held so far, in bytes. */
  peakBytes(): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, "utf8");
    const kilobytes = /^VmHWM:\s+(?<kilobytes>\d+) kB$/m.exec(status)?.groups?.["kilobytes"];
    if (kilobytes === undefined) throw new Error("/proc has no peak memory of the process.");
    return Number(kilobytes) * 1_024;
  }

  /** The processor time used so far, in steps of 10 milliseconds. */
  processorMs(): number {
    const stat = statOf(this.#pid);
    return (Number(stat[USER_TICKS]) + Number(stat[SYSTEM_TICKS])) * TICK_MS;
  }

  /** Waits until the process is idle: it may fill the cache after an answer. */
  async idle(): Promise<void> {
    const deadline = Date.now() + IDLE_TIMEOUT_MS;
    let before = this.processorMs();
    for (let quiet = 0; quiet < IDLE_SAMPLES;) {
      if (Date.now() > deadline) throw new Error("The Worker does not become idle.");
      await wait(SAMPLE_MS);
      const spent = this.processorMs();
      quiet = spent === before ? quiet + 1 : 0;
      before = spent;
    }
  }
}

/** Returns the ids of this process's children. */
export function childProcesses(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => Number(statOf(pid)[PARENT]) === process.pid);
}

/** Reads the fields of `/proc/PID/stat` after the name; returns none if the process has ended. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
