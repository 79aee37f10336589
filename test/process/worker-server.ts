import { join } from "node:path";
import { afterAll } from "vitest";
import { bundleWorker, type Server, startServer } from "../support/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { decode, encode } from "./workers/json.ts";

const PATIENT = { LIMITER_TIMEOUT_MS: "30000", DATABASE_TIMEOUT_MS: "30000" };

export const SERVICE = "src/worker/index.ts";
/** The service with a clock that `advanceClock` moves, and a log at `/log`. */
export const CLOCKED_SERVICE = "test/process/workers/controlled.ts";

/** A store with Workers. After the tests of a file, the Workers end and the store is removed. */
export class ServedStore extends StoreFolder {
  readonly #servers = new AsyncDisposableStack();

  constructor() {
    super();
    afterAll(() => this.#servers.disposeAsync());
  }

  /** Serves a Worker, by default with the longest timeouts, so that a slow machine is no outage. */
  async serve(entry: string, vars: Record<string, string> = {}): Promise<Server> {
    const script = await bundleWorker(entry, join(this.path, "bundle"));
    const options = { store: this.path, vars: { ...PATIENT, ...vars } };
    return this.#servers.use(await startServer(script, options));
  }
}

/** Moves the clock of a `CLOCKED_SERVICE` forward, instead of waiting. */
export async function advanceClock({ url }: Server, seconds: number): Promise<void> {
  const { ok } = await fetch(`${url}/clock?ms=${Math.round(seconds * 1_000)}`);
  if (!ok) throw new Error("The clock did not move.");
}

/** Calls a method of an entrypoint of a `CLOCKED_SERVICE`. Throws what the method throws. */
export async function call(
  { url }: Server,
  to: { readonly entrypoint: "ApiKeys" | "Orders"; readonly actor: string },
  method: string,
  ...args: unknown[]
) {
  const body = JSON.stringify({ ...to, method, args }, encode);
  const response = await fetch(`${url}/call`, { method: "POST", body });
  const { value, error } = JSON.parse(await response.text(), decode);
  if (error !== undefined) throw new Error(error);
  return value;
}
