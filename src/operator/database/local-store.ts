import { join } from "node:path";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The default folder of the local store, which is wrangler's own default. */
export const DEFAULT_STORE = join(PROJECT_ROOT, ".wrangler", "state");

/** The subfolder of a store in which wrangler keeps its data. `--persist-to` names the store. */
export const LAYOUT_VERSION = "v3";
