import { buildExpansion } from "./expansion.ts";
import { buildSite } from "./site.ts";

/** Builds what the Worker needs besides its source: the static files and the WebAssembly. */
export async function buildAll(): Promise<void> {
  await Promise.all([buildSite(), buildExpansion()]);
}
