import { buildExpansion } from "./expansion.ts";
import { buildSite } from "./site.ts";

/** Builds whatever the Worker needs that is not its own source. */
export async function buildAll(): Promise<void> {
  await Promise.all([buildSite(), buildExpansion()]);
}
