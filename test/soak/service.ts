import type { Bundle } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";

/** Runs the service. Can kill its workerd process, and start it again on the same store. */
export class Service {
  readonly #start: () => Promise<Server>;
  #server: Promise<Server>;
  kills = 0;

  constructor(bundle: Bundle, store: string) {
    this.#start = () => Server.start(bundle, { store });
    this.#server = this.#start();
  }

  /** The URL of the service. While the service is down, the promise is pending. */
  get url(): Promise<string> {
    return this.#server.then(({ url }) => url);
  }

  async kill(): Promise<void> {
    const server = await this.#server;
    server.process.kill();
    await server[Symbol.asyncDispose]();
  }

  async restart(): Promise<void> {
    this.kills += 1;
    this.#server = this.kill().then(this.#start);
    await this.#server;
  }
}
