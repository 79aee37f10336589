import { join } from "node:path";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The folder of the local store where none is named: wrangler's own default. */
export const DEFAULT_STORE = join(PROJECT_ROOT, ".wrangler", "state");

/** Where below a store's folder wrangler keeps its data: `--persist-to` means the folder above. */
export const LAYOUT_VERSION = "v3";
