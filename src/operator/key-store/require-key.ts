import { SECRET_PREFIX } from "../../worker/api-keys/secret.ts";
import type { KeyDetails } from "./key-details.ts";

/** @throws an Error for the operator where there is no such record. */
export function requireKey(record: KeyDetails | undefined, id: string): KeyDetails {
  if (record !== undefined) return record;
  // The error of a command may be logged, and no log holds a key.
  if (id.startsWith(SECRET_PREFIX)) {
    throw new Error(
      "this is a key and not the id of one; `npm run keys -- find` reads a key from standard input and shows its id",
    );
  }
  throw new Error(`no key has the id ${JSON.stringify(id)}; \`npm run keys -- list\` shows them`);
}
