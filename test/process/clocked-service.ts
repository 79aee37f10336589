import type { Server } from "../bench/server.ts";
import { serveWorker } from "./worker-server.ts";

/** The service on a local store. A test moves the service's clock forward instead of waiting. */
export class ClockedService implements AsyncDisposable {
  readonly #server: Server;

  private constructor(server: Server) {
    this.#server = server;
  }

  static async start(store: string, vars: Record<string, string> = {}): Promise<ClockedService> {
    return new ClockedService(await serveWorker("test/process/workers/clocked.ts", store, vars));
  }

  get port(): number {
    return Number(new URL(this.#server.url).port);
  }

  /** Moves the service's clock forward. */
  async advance(seconds: number): Promise<void> {
    const { ok } = await fetch(`${this.#server.url}/clock?ms=${Math.round(seconds * 1_000)}`);
    if (!ok) throw new Error("The clock did not move.");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server[Symbol.asyncDispose]();
  }
}
