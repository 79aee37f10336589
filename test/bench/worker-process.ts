import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/** A process is idle if it uses no processor time during this many samples of 50 ms each. */
const IDLE_SAMPLES = 6;
const SAMPLE_MS = 50;
/** Indexes of fields in `/proc/PID/stat`, counted after the name of the command (proc(5)). */
const PARENT = 1;
const USER_TICKS = 11;
const SYSTEM_TICKS = 12;
/** The unit in which Linux reports processor time. */
const TICK_MS = 10;
const IDLE_TIMEOUT_MS = 120_000;

/** The workerd process of a server. Its measurements come from `/proc`. */
export class WorkerProcess {
  readonly #pid: number;

  constructor(pid: number) {
    this.#pid = pid;
  }

  kill(): void {
    process.kill(this.#pid, "SIGKILL");
  }

  peakBytes(): number {
    const status = readFileSync(`/proc/${this.#pid}/status`, "utf8");
    const kilobytes = /^VmHWM:\s+(?<kilobytes>\d+) kB$/m.exec(status)?.groups?.["kilobytes"];
    if (kilobytes === undefined) throw new Error("/proc has no peak memory of the process.");
    return Number(kilobytes) * 1_024;
  }

  /** Returns the processor time of the process so far in milliseconds, a multiple of 10. */
  processorMs(): number {
    const stat = statOf(this.#pid);
    return (Number(stat[USER_TICKS]) + Number(stat[SYSTEM_TICKS])) * TICK_MS;
  }

  /** Waits until the process is idle, because the service may fill the cache after a response. */
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

export function childProcesses(): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => Number(statOf(pid)[PARENT]) === process.pid);
}

/** Returns the fields of `/proc/PID/stat` after the command's name; none if the process has ended. */
function statOf(pid: number): string[] {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  } catch {
    return [];
  }
}
