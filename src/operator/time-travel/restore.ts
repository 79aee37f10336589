import { eq, sql } from "drizzle-orm";
import { apiKeys, type KeyChangeDetails, keyChanges } from "../../schema/keys.ts";
import { CloudflareError } from "../cloudflare-api.ts";
import { errorMessage } from "../command-line.ts";
import { connect, findBookmark, restoreBookmark, type Restoration } from "../database/d1-api.ts";
import { type StoreDatabase, toStatements } from "../database/database.ts";
import { openRemoteDatabase, retrying } from "../database/remote.ts";
import { describeFailure, isMissingTable, type RemoteTarget } from "../database/remote-failure.ts";
import { describeDetails, differences } from "../key-store/key-changes.ts";
import { currentActor } from "../key-store/change-key.ts";
import { type KeyDetails, listApiKeys } from "../key-store/key-details.ts";

/** The key id in the audit record that describes the restoration rather than one key. */
const ALL_KEYS = "*";

/** The result of a restoration, which `npm run time-travel` prints. */
interface RestoreReport extends Restoration {
  /**
   * How the restoration changed the API keys. Missing for the orders database; `null` if the keys
   * database had no table of keys before the restoration.
   */
  readonly keys?: KeyDifferences | null;
}

/** The differences between the keys before and after a restoration: ids of keys, and their fields. */
interface KeyDifferences {
  /** Keys whose revocation the restoration undid. */
  readonly revived: readonly string[];
  /** Keys whose rotation the restoration undid. The secret from that rotation no longer works. */
  readonly rotatedBack: readonly string[];
  /** Keys that no longer exist. */
  readonly lost: readonly string[];
  /** Keys that exist again, for example because the operator undoes a restoration. */
  readonly back: readonly string[];
  /** Every key that differs, lost keys included, with the fields that differ. */
  readonly changed: readonly { readonly id: string; readonly details: KeyChangeDetails }[];
}

/** Finds the bookmark of a database's state at a time, by default the present. */
export async function bookmarkOf(target: RemoteTarget, at?: Date): Promise<string> {
  return retrying(target, "reads", async () => findBookmark(await connect(target), at));
}

/**
 * Restores a database to the state of a bookmark. First prints the command that undoes the
 * restoration.
 *
 * The limiter of a key is a Durable Object, which D1 Time Travel does not restore. So a restoration
 * of the keys database also makes every limiter use its restored key. This process keeps all keys
 * in memory twice, to compare the keys before and after the restoration.
 *
 * @param signal ends the command before the restoration, but not after it has begun.
 * @throws an Error for the operator if a step fails. The message says whether the database is
 *   restored.
 */
export async function restore(
  target: RemoteTarget,
  bookmark: string,
  signal: AbortSignal,
): Promise<RestoreReport> {
  const actor = currentActor();
  const connection = await retrying(target, "reads", () => connect(target));
  const present = await retrying(target, "reads", () => findBookmark(connection));
  const back = restoreLine(target, present);
  process.stderr.write(`The way back to the present state: ${back}\n`);
  const database = await openRemoteDatabase(target);
  const former = target.name === "keys" ? await readFormerKeys(database) : null;
  signal.throwIfAborted();
  const { stderr } = process;
  signal.addEventListener("abort", () => {
    stderr.write("The restoration has begun, so the command finishes it first ...\n");
  });
  const restoration = await restoreBookmark(connection, bookmark).catch((cause: Error) => {
    const { message } = describeFailure(cause, target, "reads");
    throw new Error(
      cause instanceof CloudflareError && cause.isRefusal
        ? `nothing was restored: ${message}`
        : `it is not known whether the database was restored (${message}). If it was, keys that had been ` +
            "revoked or rotated since may be valid again, and limiters go on as before. To restore it: " +
            `${restoreLine(target, bookmark)}\nTo return: ${back}`,
      { cause },
    );
  });
  if (target.name === "orders") return restoration;
  try {
    const keys = former && compareKeys(former, await readKeys(database));
    await settleRestoredKeys(database, { former, keys, restoration, actor });
    return { ...restoration, keys };
  } catch (cause) {
    throw new Error(
      "the database is restored, but its keys could not be compared with those before. Keys that had " +
        "been revoked or rotated since may be valid again, and limiters may go on as before: " +
        `${errorMessage(cause)}\n${describeUndo(target, restoration)}`,
      { cause },
    );
  }
}

/**
 * Reads all keys before the restoration.
 *
 * @returns `null` if a table is missing, because the restoration may be meant to bring it back.
 */
async function readFormerKeys(database: StoreDatabase): Promise<KeyDetails[] | null> {
  try {
    return await readKeys(database);
  } catch (cause) {
    if (isMissingTable(cause)) return null;
    throw new Error(
      `nothing was restored, because the keys could not be read: ${errorMessage(cause)}`,
      { cause },
    );
  }
}

function readKeys({ orm }: StoreDatabase): Promise<KeyDetails[]> {
  return listApiKeys(orm, {}, new Date());
}

function compareKeys(
  former: readonly KeyDetails[],
  restored: readonly KeyDetails[],
): KeyDifferences {
  const formerById = new Map(former.map((key) => [key.id, key]));
  const restoredById = new Map(restored.map((key) => [key.id, key]));
  const idsOf = (keys: readonly KeyDetails[], isWanted: (key: KeyDetails) => boolean) =>
    keys.filter(isWanted).map(({ id }) => id);
  const changed = [...new Map([...formerById, ...restoredById]).keys()].map((id) => {
    const before = formerById.get(id);
    const after = restoredById.get(id);
    return { id, details: after ? differences(before, after) : lossOf(before) };
  });
  return {
    revived: idsOf(restored, ({ id, revokedAt }) => {
      return revokedAt === null && (formerById.get(id)?.revokedAt ?? null) !== null;
    }),
    rotatedBack: idsOf(restored, ({ id, hash }) => (formerById.get(id)?.hash ?? hash) !== hash),
    lost: idsOf(former, ({ id }) => !restoredById.has(id)),
    back: idsOf(restored, ({ id }) => !formerById.has(id)),
    changed: changed.filter(({ details }) => Object.keys(details).length > 0),
  };
}

/** Returns the fields of a key that no longer exists. */
function lossOf(key: KeyDetails | undefined): KeyChangeDetails {
  const fields = Object.entries(key ? differences(undefined, key) : {});
  return Object.fromEntries(fields.map(([field, { to }]) => [field, { from: to, to: null }]));
}

/**
 * Changes the restored keys so that their limiters use them, and records the restoration in the
 * audit trail.
 *
 * - A limiter ignores a key whose revision is smaller than the revision that the limiter knows. So
 *   every restored key gets a larger revision.
 * - A limiter resets only if its key's number of resets has grown. If a restoration lowered the
 *   number, the limiter would ignore the next `keys reset`. So each key keeps at least its former
 *   number of resets, if `former` is known.
 *
 * The limiters keep their windows and bans.
 */
async function settleRestoredKeys(
  database: StoreDatabase,
  restored: {
    /** The keys before the restoration; `null` if they are unknown. */
    readonly former: readonly KeyDetails[] | null;
    readonly keys: KeyDifferences | null;
    readonly restoration: Restoration;
    readonly actor: string;
  },
): Promise<void> {
  const { former, keys, restoration, actor } = restored;
  const { orm } = database;
  const at = new Date();
  const bookmark = { from: restoration.previousBookmark, to: restoration.bookmark };
  const records = [{ id: ALL_KEYS, details: { bookmark } }, ...(keys?.changed ?? [])];
  const wereReset = former?.filter(({ resets }) => resets > 0) ?? [];
  await database.transaction(
    toStatements([
      // A time in milliseconds is larger than any earlier revision, because a change of a key adds
      // only 1 to its revision.
      orm.update(apiKeys).set({ revision: at.getTime() }),
      ...wereReset.map(({ id, resets }) =>
        orm
          .update(apiKeys)
          .set({ resets: sql`max(${apiKeys.resets}, ${resets})` })
          .where(eq(apiKeys.id, id)),
      ),
      ...records.map(({ id, details }) =>
        orm.insert(keyChanges).values({ at, actor, action: "restore", keyId: id, details }),
      ),
    ]),
  );
}

/** Formats the result of a restoration as text. */
export function describeRestore(target: RemoteTarget, report: RestoreReport): string {
  const { environment, name } = target;
  const { bookmark, keys } = report;
  const lines = [`The ${name} database of ${environment} is back at ${bookmark}.`];
  lines.push(describeUndo(target, report));
  if (keys === null) {
    lines.push("It had no table of keys before, so nothing could be compared. Look at the keys:");
    lines.push(`  npm run keys -- list --env ${environment}`);
  } else if (keys !== undefined) lines.push(...describeKeys(environment, keys));
  return `${lines.join("\n")}\n`;
}

function describeKeys(
  environment: string,
  { revived, rotatedBack, lost, back, changed }: KeyDifferences,
): string[] {
  const list = (title: string, lines: readonly string[]) =>
    lines.length === 0 ? [] : [title, ...lines.map((line) => `  ${line}`)];
  const commands = (command: string, ids: readonly string[]) =>
    ids.map((id) => `npm run keys -- ${command} ${id} --env ${environment}`);
  const kept = changed.filter(({ id }) => !lost.includes(id) && !back.includes(id));
  return [
    ...(lost.length > 0 ? [`Keys made since, which are gone: ${lost.join(", ")}.`] : []),
    ...(back.length > 0 ? [`Keys that were gone, and are valid again: ${back.join(", ")}.`] : []),
    ...list(
      "Keys revoked since, which are valid again. To revoke them once more:",
      commands("revoke", revived),
    ),
    ...list(
      "Keys rotated since, of which the former secret is valid again. To rotate them:",
      commands("rotate", rotatedBack),
    ),
    ...list(
      "What changed in the records of keys:",
      kept.map(({ id, details }) => `${id} ${describeDetails(details)}`),
    ),
  ];
}

function describeUndo(target: RemoteTarget, { previousBookmark }: Restoration): string {
  return `To undo this: ${restoreLine(target, previousBookmark)}`;
}

function restoreLine({ environment, name }: RemoteTarget, bookmark: string): string {
  return `npm run time-travel -- restore --env ${environment} --database ${name} --bookmark ${bookmark}`;
}
