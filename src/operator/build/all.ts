import type { Contact } from "../../openapi/document.ts";
import { buildExpansion } from "./expansion.ts";
import { buildSite } from "./site.ts";

/** Builds the files that the Worker needs besides its source: static files and WebAssembly. */
export async function buildAll(contact?: Contact): Promise<void> {
  await Promise.all([buildSite(contact), buildExpansion()]);
}
