import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { cpSync, symlinkSync, writeFileSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import pRetry from "p-retry";
import { vi } from "vitest";
import { ownFolder } from "../../src/operator/database/local-store.ts";
import { requireFreePort } from "../../src/operator/start/program.ts";
import type { Plan } from "../../src/rules/limits/plans.ts";
import { PATIENCE } from "../support/patience.ts";

interface StartOptions {
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  /** The folder of the project. */
  readonly root?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** The script of `npm start`, which is a second faster than npm. */
const NPM_START = [process.execPath, "src/operator/main.js", "start"];

/** The command `npm start` in its own process group. For the Worker alone, use `ServedStore`. */
export class Service {
  readonly port: number;
  readonly pid: number;
  stdout = "";
  stderr = "";
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #exited: Promise<unknown>;

  private constructor(child: ChildProcessWithoutNullStreams, port: number) {
    this.#child = child;
    this.#exited = once(child, "exit");
    this.pid = child.pid ?? NaN;
    this.port = port;
    child.stdout.on("data", (data: Buffer) => (this.stdout += data.toString()));
    child.stderr.on("data", (data: Buffer) => (this.stderr += data.toString()));
  }

  /** Starts the service, but does not wait until it serves requests. */
  static async launch(
    store: string,
    { command = NPM_START, args = [], root: cwd = process.cwd(), env: own }: StartOptions = {},
  ): Promise<Service> {
    const port = await freePort();
    const [program = "", ...first] = command;
    const all = [...first, "--port", String(port), "--persist-to", store, ...args];
    // Starts the service as from a user's shell, without the variables that npm and vitest set.
    const isUsual = ([name]: [string, unknown]) => !/^(?:npm_|VITEST|NODE_ENV|TEST$)/.test(name);
    const usual = Object.entries(process.env).filter(isUsual);
    const registry = { WRANGLER_REGISTRY_PATH: registryOf(store) };
    const env = { ...Object.fromEntries(usual), ...registry, ...own };
    const child = spawn(program, all, { cwd, env, detached: true });
    return new Service(child, port);
  }

  /** Starts the service and waits until it serves requests. */
  static async start(store: string, options?: StartOptions): Promise<Service> {
    const service = await Service.launch(store, options);
    await service.until(() => service.stdout.includes("Serving on"));
    return service;
  }

  /** Waits for a condition. @throws an Error with the output if the service exits before, or hangs. */
  async until(condition: () => boolean): Promise<void> {
    const ending = vi.waitUntil(() => condition() || this.hasExited, PATIENCE);
    await ending.catch(() => this.end("SIGKILL"));
    if (!condition()) throw new Error(`${String(condition)}: ${this.stdout}${this.stderr}`);
  }

  get hasExited(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  /** The demo keys that the service printed, by plan. */
  get demoKeys(): Record<Plan, string> {
    const keys = this.stdout.matchAll(/^ {2}(\w+) +(sord_\w+)$/gm);
    return Object.fromEntries([...keys].map(([, plan, key]) => [plan, key]));
  }

  /** Returns the id and command line of each process of the service that is running now. */
  processes() {
    const options = ["-A", "-ww", "-o", "pgid=,pid=,stat=,args="];
    const { stdout } = spawnSync("ps", options, { encoding: "utf8", maxBuffer: 2 ** 26 });
    // Leaves out zombies: processes that have ended, but that the parent has not waited for.
    const running = [...stdout.matchAll(/^ *(\d+) +(\d+) +[^Z\s]\S* +(.*)$/gm)];
    return running
      .filter(([, group]) => Number(group) === this.pid)
      .map(([, , id, command = ""]) => ({ id: Number(id), command }));
  }

  request(key: string, path = "", method = "GET"): Promise<Response> {
    const headers = { Authorization: `Bearer ${key}` };
    return fetch(`http://127.0.0.1:${this.port}/v1/store/orders${path}`, { method, headers });
  }

  /** Waits until the service exits. Returns the exit status; `null` if a signal ended it. */
  async exited(): Promise<number | null> {
    await this.#exited;
    return this.#child.exitCode;
  }

  /** Sends a signal to the service, and SIGKILL also to its children. Waits until all have ended. */
  async end(signal: "SIGTERM" | "SIGKILL"): Promise<void> {
    if (!this.hasExited) process.kill(signal === "SIGKILL" ? -this.pid : this.pid, signal);
    await vi
      .waitUntil(() => this.processes().length === 0, PATIENCE)
      .catch((cause: unknown) => {
        const left = this.processes().map(({ command }) => command);
        process.kill(-this.pid, "SIGKILL");
        throw new Error(`outlived ${signal}: ${left.join("\n")}`, { cause });
      });
    await this.exited();
  }
}

/** Returns the folder in which Workers find the service on this store, instead of the user's. */
export const registryOf = (store: string) => join(ownFolder(store), "registry");

/** Returns a free port below the range from which the system assigns ports for port 0. */
const freePort = () =>
  pRetry(async () => {
    const port = randomInt(10_000, 32_768);
    await requireFreePort(port);
    return port;
  });

/** Copies the project into a new folder with these lines in its `.dev.vars`. Returns the folder. */
export function copyProject(folder: string, ...vars: readonly string[]): string {
  // Skips `src/client/dist`, which the tests of the client's package may be writing.
  const filter = (path: string) => basename(path) !== "dist";
  const copied = ["src", "docs", "migrations", "package.json", "tsconfig.json", "wrangler.toml"];
  for (const name of copied) cpSync(name, join(folder, name), { recursive: true, filter });
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  writeFileSync(join(folder, ".dev.vars"), `${vars.join("\n")}\n`);
  return folder;
}
