import { existsSync } from "node:fs";
import { join } from "node:path";
import { PROJECT_ROOT } from "../wrangler.ts";

/** The default folder of the local store, the same as wrangler's default. */
export const DEFAULT_STORE = join(PROJECT_ROOT, ".wrangler", "state");

/** The subfolder of `--persist-to` in which wrangler keeps its data. */
export const LAYOUT_VERSION = "v3";

/**
 * Miniflare's file for the binding `DB`: the only database of a store that an earlier version of
 * the service created.
 */
const SINGLE_DATABASE =
  "d1/miniflare-D1DatabaseObject/e7352547963de7050bd7d94658afc4fe78b61811b7815da12d90be8e863abf4d.sqlite";

/** Returns whether an earlier version created this store, with orders and keys in one database. */
export function hasSingleDatabase(folder: string): boolean {
  return existsSync(join(folder, LAYOUT_VERSION, SINGLE_DATABASE));
}
