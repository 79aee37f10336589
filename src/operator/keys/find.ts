import type { Readable } from "node:stream";
import type { Command } from "commander";
import { hashSecret, isSecret } from "../../worker/api-keys/secret.ts";
import {
  findApiKeyByHash,
  findApiKeysByEnding,
  type KeyDetails,
} from "../key-store/key-details.ts";
import { UsageError } from "../command-line.ts";
import type { StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { printKeys } from "./print-keys.ts";

/** Longer than any key with white space around it. */
const MAX_INPUT_CHARACTERS = 1_000;

const DETAILS = `
Examples:
  $ npm run keys -- find < key.txt
  $ pbpaste | npm run -s keys -- find --json | jq -r .[].id
  $ npm run keys -- find x7aq                      keys that end in x7aq

A key goes in through standard input and never as an argument: shells keep a history of arguments. A
former key, replaced by a rotation, names its record too. Only the last four characters of a key are
stored. A key made before they were stored is found only through standard input; \`list\` shows
"unknown" for it until it is rotated.`;

/** Completes the command `keys find`. */
export function defineFind(command: Command): void {
  command
    .description("show whose key it is: reads the key from standard input")
    .argument("[ending]", "up to four characters that the key ends in, instead of the key")
    .addHelpText("after", DETAILS)
    .action(find);
}

async function find(ending: string | undefined, options: StoreCommandOptions): Promise<void> {
  const search = ending === undefined ? await searchByKey(process.stdin) : searchByEnding(ending);
  const keys = await useDatabase(options, "keys", search);
  printKeys(keys, { json: options.json, none: "" });
}

type Search = (database: StoreDatabase) => Promise<KeyDetails[]>;

function searchByEnding(text: string): Search {
  const ending = text.toLowerCase();
  // Names no character of the argument, which may be a whole key.
  if (!/^[a-z2-7]{1,4}$/.test(ending)) {
    throw new UsageError(
      "the argument is one to four letters or digits that the key ends in; a whole key goes in through standard input",
    );
  }
  return async ({ orm }) => {
    const keys = await findApiKeysByEnding(orm, ending);
    if (keys.length > 0) return keys;
    throw new Error(
      `no key is known to end in ${ending}; one made before the last characters were stored is found only through standard input`,
    );
  };
}

async function searchByKey(input: Readable & { readonly isTTY?: boolean }): Promise<Search> {
  if (input.isTTY) process.stderr.write("Paste the key, then press Enter and Ctrl+D.\n");
  const key = (await readInput(input)).trim();
  if (!isSecret(key)) {
    throw new Error(
      "standard input holds no API key of this service: it may be mistyped, cut off, or more than the key",
    );
  }
  return async ({ orm }) => {
    const record = await findApiKeyByHash(orm, hashSecret(key));
    if (record !== undefined) return [record];
    throw new Error(
      "no record has this key: it may be of another store or environment, see --persist-to and --env",
    );
  };
}

async function readInput(input: Readable): Promise<string> {
  let text = "";
  for await (const part of input) {
    text += String(part);
    if (text.length > MAX_INPUT_CHARACTERS) break;
  }
  return text;
}
