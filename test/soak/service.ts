import type { Bundle } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";

/** Serves the service, and can kill and restart its workerd process on the same store. */
export class Service {
  readonly #bundle: Bundle;
  readonly #store: string;
  #server: Server | null = null;
  #address = Promise.withResolvers<string>();
  kills = 0;

  constructor(bundle: Bundle, store: string) {
    this.#bundle = bundle;
    this.#store = store;
  }

  /** The URL of the service. While the service is down, the promise is pending. */
  get url(): Promise<string> {
    return this.#address.promise;
  }

  async start(): Promise<void> {
    this.#server = await Server.start(this.#bundle, { store: this.#store });
    this.#address.resolve(this.#server.url);
  }

  /** Kills the workerd process with SIGKILL. */
  async kill(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    this.#server = null;
    this.#address = Promise.withResolvers();
    server.process.kill();
    await server[Symbol.asyncDispose]();
  }

  async restart(): Promise<void> {
    this.kills += 1;
    await this.kill();
    await this.start();
  }
}
