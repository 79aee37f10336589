import type { Readable } from "node:stream";
import type { Command } from "commander";
import { hashSecret } from "../../worker/api-keys/secret.ts";
import {
  findApiKeyByHash,
  findApiKeysByEnding,
  type KeyDetails,
} from "../key-store/key-details.ts";
import { UsageError } from "../command-line.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { readSecret } from "../read-secret.ts";
import { printKey, printKeys } from "./print-keys.ts";

const DETAILS = `
Examples:
  $ npm run keys -- find < key.txt
  $ pbpaste | npm run -s keys -- find --json | jq -r .[].id
  $ npm run keys -- find x7aq                      keys that end in x7aq

Pass a whole key on standard input, never as an argument, because shells keep a history of arguments.
\`find\` also finds a key by a former secret that a rotation has replaced. The store keeps the hash and
the last four characters of a secret. For keys from before the store kept these characters, \`list\` shows "unknown"
until they are rotated. Such keys are found only through standard input.`;

/**
 * Adds the options and the action of `keys find`, which finds a key by its secret, or by the last
 * characters of the secret.
 */
export function defineFind(command: Command): void {
  command
    .description("show the id and name of a key that is read from standard input")
    .argument("[ending]", "the last one to four characters of the key, instead of the key")
    .addHelpText("after", DETAILS)
    .action(find);
}

async function find(ending: string | undefined, options: StoreCommandOptions): Promise<void> {
  const search =
    ending === undefined ? await searchBySecret(process.stdin) : searchByEnding(ending);
  const keys = await useDatabase(options, "keys", search);
  const [key, ...others] = keys;
  if (key !== undefined && others.length === 0 && !options.json) printKey(key, options);
  else printKeys(keys, { json: options.json, none: "" });
}

type Search = (database: StoreDatabase) => Promise<KeyDetails[]>;

function searchByEnding(text: string): Search {
  const ending = text.toLowerCase();
  // The message does not repeat the argument, because the argument may be a secret.
  if (!/^[a-z2-7]{1,4}$/.test(ending)) {
    throw new UsageError(
      "expected the last one to four letters or digits of a key; pass a whole key on standard input",
    );
  }
  return async ({ orm }) => {
    const keys = await findApiKeysByEnding(orm, ending);
    if (keys.length > 0) return keys;
    throw new Error(
      `no key is known to end in ${ending}; a key older than the stored characters is found only through standard input`,
    );
  };
}

async function searchBySecret(input: Readable): Promise<Search> {
  const secret = await readSecret(input);
  return async ({ orm }) => {
    const key = await findApiKeyByHash(orm, hashSecret(secret));
    if (key !== undefined) return [key];
    throw new Error(
      "this store does not know the key: try another store or environment, see --persist-to and --env",
    );
  };
}
