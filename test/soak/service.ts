import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";

/** Runs the service in its own process, and can kill and restart this process on the same store. */
export class Service {
  readonly #bundleFile: string;
  readonly #store: string;
  #child: ChildProcess | null = null;
  #address = Promise.withResolvers<string>();
  kills = 0;

  constructor(bundleFile: string, store: string) {
    this.#bundleFile = bundleFile;
    this.#store = store;
  }

  /**
   * The URL of the service. While the service is down, the promise is pending until the service
   * starts.
   */
  get url(): Promise<string> {
    return this.#address.promise;
  }

  async start(): Promise<void> {
    const child = fork(join(import.meta.dirname, "serve.ts"), [this.#bundleFile, this.#store], {
      detached: true,
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#child = child;
    const failed = once(child, "exit").then(([status]) => {
      throw new Error(`The service ended with ${status} instead of starting.`);
    });
    // The promise `failed` also rejects when the service's process is killed later. This handler
    // ignores that rejection.
    failed.catch(() => undefined);
    const [url] = await Promise.race([once(child, "message"), failed]);
    this.#address.resolve(String(url));
  }

  /** Kills the service's process and its workerd process with SIGKILL. */
  async kill(): Promise<void> {
    const child = this.#child;
    if (child?.pid === undefined) return;
    this.#child = null;
    this.#address = Promise.withResolvers();
    const exited = once(child, "exit");
    process.kill(-child.pid, "SIGKILL");
    await exited;
  }

  async restart(): Promise<void> {
    this.kills += 1;
    await this.kill();
    await this.start();
  }
}
