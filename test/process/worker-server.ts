import { globSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { PROJECT_ROOT } from "../../src/operator/wrangler.ts";
import { compatibilityDateIn } from "../bench/bundle.ts";
import { Server } from "../bench/server.ts";

export const SERVICE = "src/worker/index.ts";
/** The service with a clock that `advanceClock` moves. */
export const CLOCKED_SERVICE = "test/process/workers/clocked.ts";

/** Serves a Worker on a local store. Bundles it here, because wrangler takes seconds for that. */
export async function serveWorker(
  entry: string,
  store: string,
  vars: Record<string, string> = {},
): Promise<Server> {
  const outdir = join(store, "bundle");
  await build({
    absWorkingDir: PROJECT_ROOT,
    entryPoints: [entry],
    outdir,
    bundle: true,
    format: "esm",
    target: "es2024",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
    loader: { ".wasm": "copy" },
    logLevel: "error",
  });
  const bundle = {
    script: join(outdir, `${basename(entry, ".ts")}.js`),
    wasm: globSync(join(outdir, "*.wasm")),
    compatibilityDate: await compatibilityDateIn(join(PROJECT_ROOT, "wrangler.toml")),
  };
  return Server.start(bundle, { store, vars });
}

/** Moves the clock of a `CLOCKED_SERVICE` forward, instead of waiting. */
export async function advanceClock({ url }: Server, seconds: number): Promise<void> {
  const { ok } = await fetch(`${url}/clock?ms=${Math.round(seconds * 1_000)}`);
  if (!ok) throw new Error("The clock did not move.");
}
