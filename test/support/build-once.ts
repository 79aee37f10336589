import { buildAll } from "../../src/operator/build/program.ts";

/** The global property that holds the build, because each project loads this file anew. */
const BUILD = Symbol.for("build");
const shared = globalThis as { [BUILD]?: Promise<void> };

/** Builds the assets folder of wrangler.toml, without which workerd does not start. */
export default function setup(): Promise<void> {
  return (shared[BUILD] ??= buildAll());
}
