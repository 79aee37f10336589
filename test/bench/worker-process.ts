import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/** Between two looks at a process, in milliseconds. */
const LOOK_MS = 50;
/** After so many looks without work a process is idle. */
const IDLE_LOOKS = 6;
/** Of the fields of `/proc/PID/stat` after the name (proc(5)). */
const PARENT = 1;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;
/** Linux counts processor time for programs in hundredths of a second. */
const TICK_MS = 10;
const IDLE_TIMEOUT_MS = 120_000;

/** The workerd process of one server, as Linux accounts for it in `/proc`. */
export class WorkerProcess {
  readonly #pid: number;

  constructor(pid: number) {
    this.#pid = pid;
  }

  /** The most memory that the process has held so far, in bytes. */
  peakBytes(): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, "utf8");
    const kilobytes = /^VmHWM:\s+(?<kilobytes>\d+) kB$/m.exec(status)?.groups?.["kilobytes"];
    if (kilobytes === undefined) throw new Error("The kernel does not tell the peak of memory.");
    return Number(kilobytes) * 1_024;
  }

  /** Processor time that the process has used so far, in milliseconds, to the nearest 10. */
  processorMs(): number {
    const stat = statOf(this.#pid);
    return (Number(stat[USER_TICKS]) + Number(stat[SYSTEM_TICKS])) * TICK_MS;
  }

  /** Waits until the process has nothing left to do, such as filling the cache. */
  async idle(): Promise<void> {
    const deadline = Date.now() + IDLE_TIMEOUT_MS;
    let before = this.processorMs();
    for (let quiet = 0; quiet < IDLE_LOOKS;) {
      if (Date.now() > deadline) throw new Error("The Worker does not come to rest.");
      await wait(LOOK_MS);
      const spent = this.processorMs();
      quiet = spent === before ? quiet + 1 : 0;
      before = spent;
    }
  }
}

/** The ids of the processes that this one has started. */
export function childProcesses(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => Number(statOf(pid)[PARENT]) === process.pid);
}

/** The fields of `/proc/PID/stat` after the name, the state first; none where the process has ended. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
