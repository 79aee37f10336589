import { createHash, createHmac } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { BINDINGS, DATABASE_NAMES, type DatabaseName } from "../../schema/databases.ts";

/** The default folder of the local store, the same as wrangler's default. */
export const DEFAULT_STORE = join(import.meta.dirname, "..", "..", "..", ".wrangler", "state");

/** The subfolder of `--persist-to` in which wrangler keeps its data. */
export const LAYOUT_VERSION = "v3";

/** The class of the Durable Objects in which wrangler keeps local databases. */
const DATABASE_CLASS = "miniflare-D1DatabaseObject";

export function isStore(folder: string): boolean {
  return DATABASE_NAMES.some((name) => existsSync(databaseFile(folder, name)));
}

/** Returns the path of the SQLite file of a database. wrangler names it after an object's id. */
export function databaseFile(folder: string, name: DatabaseName): string {
  const key = createHash("sha256").update(DATABASE_CLASS).digest();
  const half = (data: string | Buffer) =>
    createHmac("sha256", key).update(data).digest().subarray(0, 16);
  const first = half(BINDINGS[name]);
  const id = Buffer.concat([first, half(first)]).toString("hex");
  return join(folder, LAYOUT_VERSION, "d1", DATABASE_CLASS, `${id}.sqlite`);
}
