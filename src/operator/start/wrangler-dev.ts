import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { stripVTControlCharacters } from "node:util";
import { COMPILE_CACHE, PROJECT_ROOT, wranglerCommand } from "../wrangler.ts";
import { formatServiceLine, isServiceLine } from "./service-log.ts";
import { wranglerLockPath } from "./store-lock.ts";

const ENVIRONMENT: NodeJS.ProcessEnv = {
  WRANGLER_SEND_METRICS: "false",
  WRANGLER_HIDE_BANNER: "true",
  // Stops wrangler from fetching the data for `request.cf`. Without a network, this fetch prints a
  // stack trace.
  CLOUDFLARE_CF_FETCH_ENABLED: "false",
  // Turns off local traces, because they fill the store's folder and halve the speed.
  X_LOCAL_OBSERVABILITY: "false",
};

const POLL_MS = 100;
const START_TIMEOUT_MS = 60_000;
const STOP_TIMEOUT_MS = 5_000;
const CRON_TIMEOUT_MS = 600_000;

/**
 * A service that `wrangler dev` runs. wrangler and workerd are in a separate process group, so that
 * one signal ends both.
 */
export class WranglerDev {
  readonly #child: ChildProcess;
  readonly #port: number;
  readonly #exited: Promise<unknown>;
  /** True once wrangler listens on the port. Before, another program might respond on this port. */
  #isListening = false;
  /** The output of wrangler until the service is ready; `null` once it is ready. */
  #output: string[] | null = [];

  /**
   * @param persistTo the absolute path of the store's folder.
   * @param logsRequests true prints a log line for each request.
   */
  constructor(port: number, persistTo: string, logsRequests: boolean) {
    this.#port = port;
    const { command, args } = wranglerCommand([
      "dev",
      "--ip=127.0.0.1",
      `--port=${port}`,
      "--inspector-port=0",
      `--persist-to=${persistTo}`,
      ...(logsRequests ? ["--log-level=log", "--var=REQUEST_LOG:all"] : ["--log-level=warn"]),
      "--show-interactive-dev-session=false",
    ]);
    const preload = new URL("end-with-parent.ts", import.meta.url).href;
    this.#child = spawn(command, ["--import", preload, ...args], {
      cwd: PROJECT_ROOT,
      env: {
        NODE_COMPILE_CACHE: COMPILE_CACHE,
        ...process.env,
        ...ENVIRONMENT,
        STORE_ORDERS_WRANGLER_LOCK: wranglerLockPath(persistTo),
      },
      stdio: ["pipe", "pipe", "pipe", "ipc"],
      detached: true,
    });
    this.#exited = once(this.#child, "exit");
    this.#child.on("message", (message) => (this.#isListening ||= isListeningEvent(message)));
    const { stdout, stderr } = this.#child;
    if (logsRequests && stdout !== null) passServiceLines(stdout, process.stdout);
    else stdout?.on("data", (data: Buffer) => this.#pass(data, process.stdout));
    stderr?.on("data", (data: Buffer) => this.#pass(data, process.stderr));
  }

  /**
   * Waits until the service responds.
   *
   * @throws an Error with wrangler's error message if wrangler ends or takes more than a minute.
   */
  async ready(): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (!(await this.#answers())) {
      if (this.#hasExited()) {
        throw new Error(`the service did not start: ${describeStartFailure(this.#output ?? [])}`);
      }
      if (performance.now() > deadline) {
        throw new Error(
          `the service does not answer after ${START_TIMEOUT_MS / 1000} seconds: ${describeStartFailure(this.#output ?? [])}`,
        );
      }
      await delay(POLL_MS);
    }
    for (const text of this.#output ?? []) process.stderr.write(text);
    this.#output = null;
  }

  /**
   * Runs the Worker's cron trigger, because `wrangler dev` never runs it.
   *
   * @throws an Error if the trigger fails. The Worker logs the cause.
   */
  async runCron(): Promise<void> {
    const { ok, status } = await fetch(`http://127.0.0.1:${this.#port}/cdn-cgi/local/scheduled`, {
      signal: AbortSignal.timeout(CRON_TIMEOUT_MS),
    });
    if (!ok) throw new Error(`answered ${status}`);
  }

  /** Waits until wrangler has ended for any reason. */
  async ended(): Promise<void> {
    await this.#exited;
  }

  /** Ends wrangler and workerd with SIGTERM, and after 5 seconds with SIGKILL. */
  async stop(): Promise<void> {
    this.#signal("SIGTERM");
    const deadline = performance.now() + STOP_TIMEOUT_MS;
    while (this.#signal(0) && performance.now() < deadline) await delay(POLL_MS);
    this.#signal("SIGKILL");
  }

  #hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** Returns whether the service responds. Requests `/`, which counts against no rate limit. */
  async #answers(): Promise<boolean> {
    if (!this.#isListening || this.#hasExited()) return false;
    try {
      const response = await fetch(`http://127.0.0.1:${this.#port}/`, {
        method: "HEAD",
        signal: AbortSignal.timeout(2_000),
      });
      return response.status < 500;
    } catch {
      return false;
    }
  }

  /** Signals the process group. Returns whether any process of the group is left. */
  #signal(signal: NodeJS.Signals | 0): boolean {
    if (this.#child.pid === undefined) return false;
    try {
      return process.kill(-this.#child.pid, signal);
    } catch {
      return false;
    }
  }

  #pass(data: Buffer, stream: NodeJS.WriteStream): void {
    if (this.#output === null) stream.write(data);
    else this.#output.push(data.toString());
  }
}

/** Recognizes the message that wrangler sends over the IPC channel once it listens on the port. */
function isListeningEvent(message: unknown): boolean {
  return typeof message === "string" && message.includes('"event":"DEV_SERVER_READY"');
}

/** Prints the log lines of the service and drops all other output of wrangler. */
function passServiceLines(output: Readable, stream: NodeJS.WriteStream): void {
  createInterface({ input: output }).on("line", (line) => {
    if (isServiceLine(line)) stream.write(`${formatServiceLine(line, new Date(), stream)}\n`);
  });
}

/** Returns wrangler's first error message, without prefixes such as `service core:user:`. */
function describeStartFailure(output: readonly string[]): string {
  const text = stripVTControlCharacters(output.join(""));
  if (text.includes("SQLITE_BUSY")) return "SQLITE_BUSY, another process has locked the store";
  const first = /\[ERROR\] (?<message>.+)/.exec(text)?.groups?.["message"];
  return first?.replace(/^service \S+: (?:Uncaught Error: )?/, "") ?? text.trim();
}
