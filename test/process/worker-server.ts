import { join } from "node:path";
import { build } from "esbuild";
import { afterAll } from "vitest";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { type Bundle, bundleIn } from "../support/bundle.ts";
import { type Caller, type Server, startServer } from "../support/server.ts";
import { StoreFolder } from "../operator/store-folder.ts";
import { decode, encode } from "./workers/exact-json.ts";

const PATIENT = { LIMITER_TIMEOUT_MS: "30000", DATABASE_TIMEOUT_MS: "30000" };

export const SERVICE = "src/worker/index.ts";
/** The service with a clock that `advanceClock` moves, and a log at `/log`. */
export const CLOCKED_SERVICE = "test/process/workers/controlled.ts";

/** A second Worker, which calls the service's entrypoints: see `callOf`. */
const CALLER = "test/process/workers/caller.ts";

/** A store with Workers. After the tests of a file, the Workers end and the store is removed. */
export class ServedStore extends StoreFolder {
  readonly #servers = new AsyncDisposableStack();

  constructor() {
    super();
    afterAll(async () => {
      await this.#servers.disposeAsync();
    });
  }

  /**
   * Serves a Worker, with `bindings` beside one that has these service bindings, by default with the
   * longest timeouts, so that a slow machine is no outage. wrangler would take seconds to bundle it.
   */
  async serve(
    entry: string,
    vars: Record<string, string> = {},
    bindings?: Caller["bindings"],
  ): Promise<Server> {
    const bundle = await this.#bundle(entry);
    const caller = bindings && { script: (await this.#bundle(CALLER)).script, bindings };
    const options = { store: this.path, vars: { ...PATIENT, ...vars }, ...(caller && { caller }) };
    return this.#servers.use(await startServer(bundle, options));
  }

  async #bundle(entry: string): Promise<Bundle> {
    const outdir = join(this.path, "bundle");
    await build({
      absWorkingDir: PROJECT_ROOT,
      entryPoints: [entry],
      outdir,
      bundle: true,
      format: "esm",
      target: "es2024",
      conditions: ["workerd", "worker", "browser"],
      external: ["cloudflare:*"],
      logLevel: "error",
    });
    return bundleIn(outdir, entry, PROJECT_ROOT);
  }
}

/** Moves the clock of a `CLOCKED_SERVICE` forward, instead of waiting. */
export async function advanceClock({ url }: Server, seconds: number): Promise<void> {
  const { ok } = await fetch(`${url}/clock?ms=${Math.round(seconds * 1_000)}`);
  if (!ok) throw new Error("The clock did not move.");
}

/** Calls a method of an entrypoint through the second Worker. Throws what the method throws. */
export async function call(server: Server, binding: string, method: string, ...args: unknown[]) {
  const body = JSON.stringify({ binding, method, args }, encode);
  const response = await server.fetchCaller("/", { method: "POST", body });
  const { value, error } = JSON.parse(await response.text(), decode);
  if (error !== undefined) throw new Error(error);
  return value;
}
