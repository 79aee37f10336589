import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as wait } from "node:timers/promises";

/** The unit in which Linux reports processor time. */
const TICK_MS = 10;
const SAMPLE_MS = 50;
/** A process is idle if it uses no processor time during this many samples. */
const IDLE_SAMPLES = 6;

/** The workerd process of a server. Its measurements come from `/proc` (proc(5)). */
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
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) * 1_024;
  }

  /** Returns the processor time of the process so far in milliseconds, a multiple of 10. */
  processorMs(): number {
    const [user, system] = statOf(this.#pid).slice(11);
    return (Number(user) + Number(system)) * TICK_MS;
  }

  /** Waits until the process is idle, because the service may fill the cache after a response. */
  async idle(): Promise<void> {
    let before = this.processorMs();
    for (let quiet = 0; quiet < IDLE_SAMPLES;) {
      await wait(SAMPLE_MS);
      const spent = this.processorMs();
      quiet = spent === before ? quiet + 1 : 0;
      before = spent;
    }
  }
}

export function childProcesses(): number[] {
  const pids = readdirSync("/proc").map(Number).filter(Number.isInteger);
  return pids.filter((pid) => Number(statOf(pid)[1]) === process.pid);
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
