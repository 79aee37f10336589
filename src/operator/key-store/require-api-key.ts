import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { SECRET_PREFIX } from "../../worker/api-keys/secret.ts";
import { onSameStore } from "../command-line.ts";
import { findApiKey, type KeyDetails } from "./key-details.ts";

/**
 * Finds the key with this id.
 *
 * @throws an Error for the operator if no key has this id.
 */
export async function requireApiKey(
  database: BaseSQLiteDatabase<"async", unknown>,
  id: string,
): Promise<KeyDetails> {
  const key = await findApiKey(database, id);
  if (key !== undefined) return key;
  if (id.startsWith(SECRET_PREFIX)) {
    throw new Error(
      `this is a key, not the id of a key; \`${onSameStore("npm run keys -- find")}\` reads a key from standard input and shows its id`,
    );
  }
  throw new Error(
    `no key has the id ${JSON.stringify(id)}; \`${onSameStore("npm run keys -- list")}\` shows the ids`,
  );
}
