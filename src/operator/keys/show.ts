import { desc, eq } from "drizzle-orm";
import { hashSecret } from "../../rules/keys/secret.ts";
import { keyBans, keyChanges } from "../../schema/keys.ts";
import { databaseTime, type Orm } from "../../store/database.ts";
import {
  describeKey,
  findApiKey,
  type KeyFilter,
  listApiKeys,
} from "../../store/keys/find-keys.ts";
import type { KeyAtTime, KeyDetails } from "../../store/keys/key-settings.ts";
import { onSameStore, printData, printJson, UsageError } from "../command-line.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { readSecret } from "../read-secret.ts";
import { type Cell, formatNumber, formatRecord, formatTable } from "../terminal-text.ts";

/** Prints the keys that match a filter, without their secrets. */
export async function list(options: StoreCommandOptions & KeyFilter): Promise<void> {
  // The message does not repeat the argument, because the argument may be a secret.
  if (!/^[a-z2-7]{1,4}$/i.test(options.ending ?? "a")) {
    throw new UsageError(
      "--ending: expected the last one to four letters or digits of a key, from a to z and 2 to 7; `show -` reads a whole key from standard input",
    );
  }
  const keys = await useDatabase(options, "keys", async ({ orm }) => {
    const now = await databaseTime(orm);
    return (await listApiKeys(orm, options, now)).map((key) => describeKey(key, now));
  });
  if (options.json) return printJson(keys);
  if (keys.length === 0) return void process.stderr.write("No matching keys.\n");
  const rows = keys.map(({ id, plan, state, lastFour, expiresAt: expires, name }) => {
    // A date alone means the start of its day, as where it is typed.
    const [day, time] = expires?.toISOString().split(/T00:00:00.000Z|T/) ?? [];
    return { id, plan, state, "ends in": lastFour, expires: (time ? expires : day) ?? null, name };
  });
  printData(formatTable(rows, "name"));
}

/** Prints one key and its last bans. `-` reads the key's secret from stdin. */
export async function show(id: string, options: StoreCommandOptions): Promise<void> {
  const hash = id === "-" ? hashSecret(await readSecret(process.stdin)) : undefined;
  const { key, bans } = await useDatabase(options, "keys", async ({ orm }) => {
    const found = await (hash === undefined ? requireApiKey(orm, id) : findApiKey(orm, { hash }));
    if (found === undefined) {
      throw new Error(
        "this store does not know the key: try another store or environment, see --persist-to and --env",
      );
    }
    const { number, beganAt, endsAt: until, liftedAt, keyId } = keyBans;
    const ofKey = orm.select({ number, beganAt, until, liftedAt }).from(keyBans);
    const newest = ofKey.where(eq(keyId, found.id)).orderBy(desc(beganAt)).limit(10);
    return { key: describeKey(found, await databaseTime(orm)), bans: await newest };
  });
  if (options.json) return printJson({ ...key, bans });
  printData(formatKey(key));
  if (bans.length > 0) printData(`\nThe last bans:\n${formatTable(bans)}`);
}

/** Finds a key by its id. Throws an Error for the operator if no key has this id. */
export async function requireApiKey(orm: Orm, id: string): Promise<KeyDetails> {
  const key = await findApiKey(orm, id);
  if (key !== undefined) return key;
  const all = onSameStore("npm run keys -- list");
  throw new Error(`no key has the id ${JSON.stringify(id)}; \`${all}\` shows the ids`);
}

/** Prints the audit trail of all keys, or of one, the newest change first. */
export async function audit(
  ofKey: string | undefined,
  options: StoreCommandOptions & { readonly limit: number },
): Promise<void> {
  const { limit } = options;
  const { at, actor, action, keyId, details } = keyChanges;
  const changes = await useDatabase(options, "keys", async ({ orm }) => {
    const all = orm.select({ at, actor, action, keyId, details }).from(keyChanges);
    const selected = all.where(ofKey === undefined ? undefined : eq(keyId, ofKey));
    const found = await selected.orderBy(desc(keyChanges.id)).limit(limit);
    // A key that was deleted has entries still.
    if (ofKey !== undefined && found.length === 0) await requireApiKey(orm, ofKey);
    return found;
  });
  if (options.json) return printJson(changes);
  if (changes.length === 0) return void process.stderr.write("No changes are recorded.\n");
  const rows = changes.map(({ keyId: key, details: changed, ...change }) => {
    const fields = Object.entries(changed).map(
      ([field, { from, to }]) => `${field}: ${from === null ? "" : `${from} → `}${to ?? "none"}`,
    );
    return { ...change, key, details: fields.join(", ") };
  });
  printData(formatTable(rows, "actor", "details"));
  if (rows.length === limit) {
    process.stderr.write(`The newest ${formatNumber(limit)}; --limit N shows more.\n`);
  }
}

/** Prints changed keys on stdout, several as a JSON array or as text after a title on stderr. */
export function printKeys(keys: readonly KeyAtTime[], { json }: { json: boolean }): void {
  const found = keys.map(([key, now]) => describeKey(key, now));
  if (json) return printJson(found.length === 1 ? found[0] : found);
  process.stderr.write(found.length === 1 ? "The key is now:\n\n" : "The keys are now:\n\n");
  printData(found.map(formatKey).join("\n"));
}

/**
 * Prints a new secret on stdout, and then the key's details on stderr; with `json`, both on stdout.
 *
 * @throws an Error for the operator if the secret could not be printed.
 */
export async function printSecret(
  secret: string,
  [key, now]: KeyAtTime,
  { json }: { json: boolean },
): Promise<void> {
  const { id, ...rest } = describeKey(key, now);
  const data = json ? JSON.stringify({ id, key: secret, ...rest }) : secret;
  const lost = await new Promise((resolve) => process.stdout.write(`${data}\n`, resolve));
  if (lost != null) {
    const command = (name: string) => onSameStore(`npm run keys -- ${name} ${id}`);
    const message = `the key ${id} is stored, but its secret could not be printed and is lost`;
    const advice = `Make another, or end the key:\n  ${command("rotate")}\n  ${command("revoke")}`;
    throw new Error(`${message}. ${advice}`, { cause: lost });
  }
  if (json) return;
  process.stderr.write(`\nKeep this key: it is not shown again.\n\n${formatKey({ id, ...rest })}`);
}

/** Formats the fields that a key has, each with its name in words, such as `per minute`. */
function formatKey(key: Readonly<Record<string, Cell>>): string {
  const inWords = (name: string) => name.replaceAll(/[A-Z]/g, " $&").toLowerCase();
  return formatRecord(Object.entries(key).map(([name, value]) => [inWords(name), value]));
}
