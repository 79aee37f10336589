import { eq, sql } from "drizzle-orm";
import { apiKeys, keyChanges } from "../../schema/keys.ts";
import { CloudflareError } from "../cloudflare-api.ts";
import { errorMessage } from "../command-line.ts";
import {
  connect,
  describeFailure,
  findBookmark,
  isMissingTable,
  type RemoteTarget,
  restoreBookmark,
  type Restoration,
} from "../database/d1-api.ts";
import type { StoreDatabase } from "../database/database.ts";
import { openRemoteDatabase } from "../database/remote.ts";
import { describeDetails, differences, type KeyChangeDetails } from "../key-store/key-changes.ts";
import { currentActor } from "../key-store/change-key.ts";
import { type KeyDetails, listApiKeys } from "../key-store/key-details.ts";

/** The key id in the audit record of the restoration itself. */
const ALL_KEYS = "*";

interface RestoreReport extends Restoration {
  /** Missing for the orders database; `null` if a table was missing before the restoration. */
  readonly keys?: KeyDifferences | null;
}

/** Ids of keys that the restoration made valid again, rotated back, removed or brought back. */
interface KeyDifferences extends Readonly<
  Record<"revived" | "rotatedBack" | "lost" | "back", readonly string[]>
> {
  /** Every key that differs, including lost and brought-back keys, with the fields that differ. */
  readonly changed: readonly { readonly id: string; readonly details: KeyChangeDetails }[];
}

/** Returns the bookmark of a database's state at the point in time `at`, by default now. */
export async function bookmarkOf(target: RemoteTarget, at?: Date): Promise<string> {
  return findBookmark(await connect(target), at);
}

/**
 * Prints the command that returns to the present state, then restores a database to the state of a
 * bookmark. For the keys database, makes the limiters use the restored keys, because Time Travel
 * does not restore Durable Objects.
 *
 * @param signal ends the command only if the restoration has not begun.
 * @throws an Error for the operator. Its message says whether the database is restored, if known.
 */
export async function restore(
  target: RemoteTarget,
  bookmark: string,
  signal: AbortSignal,
): Promise<RestoreReport> {
  const actor = currentActor();
  const connection = await connect(target);
  const back = restoreLine(target, await findBookmark(connection));
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
    await settleRestoredKeys(database, restoration, actor, former, keys);
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

/** Returns `null` if a table is missing, because the restoration may be meant to bring it back. */
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

function readKeys(database: StoreDatabase): Promise<KeyDetails[]> {
  return listApiKeys(database.orm, {}, new Date());
}

function compareKeys(
  former: readonly KeyDetails[],
  restored: readonly KeyDetails[],
): KeyDifferences {
  const formerById = new Map(former.map((key) => [key.id, key]));
  const restoredById = new Map(restored.map((key) => [key.id, key]));
  const keys = [...new Map([...formerById, ...restoredById]).keys()].map((id) => {
    const before = formerById.get(id);
    const after = restoredById.get(id);
    return { id, before, after, details: after ? differences(before, after) : lossOf(before) };
  });
  const idsOf = (isWanted: (key: (typeof keys)[number]) => unknown) =>
    keys.filter(isWanted).map(({ id }) => id);
  return {
    revived: idsOf(({ before, after }) => before?.revokedAt && after?.revokedAt === null),
    rotatedBack: idsOf(({ before, after }) => before && after && before.hash !== after.hash),
    lost: idsOf(({ after }) => after === undefined),
    back: idsOf(({ before }) => before === undefined),
    changed: keys
      .filter(({ details }) => Object.keys(details).length > 0)
      .map(({ id, details }) => ({ id, details })),
  };
}

function lossOf(key: KeyDetails | undefined): KeyChangeDetails {
  const fields = Object.entries(key ? differences(undefined, key) : {});
  return Object.fromEntries(fields.map(([field, { to }]) => [field, { from: to, to: null }]));
}

/**
 * Changes the restored keys so that their limiters use them, and records the restoration in the
 * audit trail. The limiters keep their windows and bans.
 *
 * - A limiter ignores a key whose revision is smaller than the last one it saw. So each key gets a
 *   larger revision.
 * - A limiter resets only if a key has more resets than the limiter has seen. So each key keeps at
 *   least the number of resets that it had before the restoration, if `former` is known.
 */
async function settleRestoredKeys(
  database: StoreDatabase,
  restoration: Restoration,
  actor: string,
  former: readonly KeyDetails[] | null,
  keys: KeyDifferences | null,
): Promise<void> {
  const at = new Date();
  const bookmark = { from: restoration.previousBookmark, to: restoration.bookmark };
  const records = [{ id: ALL_KEYS, details: { bookmark } }, ...(keys?.changed ?? [])];
  const wereReset = former?.filter(({ resets }) => resets > 0) ?? [];
  // Other changes of a key add 1 to its revision, so the Unix time usually exceeds all revisions.
  // But an earlier restoration on a machine whose clock was ahead may have set a larger revision.
  const revision = (former ?? []).reduce(
    (largest, key) => Math.max(largest, key.revision + 1),
    at.getTime(),
  );
  const { orm } = database;
  await database.transaction([
    orm.update(apiKeys).set({ revision }),
    ...wereReset.map(({ id, resets }) =>
      orm
        .update(apiKeys)
        .set({ resets: sql`max(${apiKeys.resets}, ${resets})` })
        .where(eq(apiKeys.id, id)),
    ),
    ...records.map(({ id, details }) =>
      orm.insert(keyChanges).values({ at, actor, action: "restore", keyId: id, details }),
    ),
  ]);
}

export function describeRestore(target: RemoteTarget, report: RestoreReport): string {
  const { env, name } = target;
  const { bookmark, keys } = report;
  const lines = [
    `The ${name} database of ${env} is back at ${bookmark}.`,
    describeUndo(target, report),
  ];
  if (keys) lines.push(...describeKeys(env, keys));
  if (keys === null) {
    lines.push("It had no table of keys before, so nothing could be compared. Look at the keys:");
    lines.push(`  npm run keys -- list --env ${env}`);
  }
  return `${lines.join("\n")}\n`;
}

function describeKeys(
  env: string,
  { revived, rotatedBack, lost, back, changed }: KeyDifferences,
): string[] {
  const commands = (command: string, ids: readonly string[]) =>
    ids.map((id) => `npm run keys -- ${command} ${id} --env ${env}`);
  const kept = changed.filter(({ id }) => !lost.includes(id) && !back.includes(id));
  const details = kept.map((key) => `${key.id} ${describeDetails(key.details)}`);
  const lists = [
    [
      "Keys revoked since, which are valid again. To revoke them once more:",
      ...commands("revoke", revived),
    ],
    [
      "Keys rotated since, of which the former secret is valid again. To rotate them:",
      ...commands("rotate", rotatedBack),
    ],
    ["What changed in the records of keys:", ...details],
  ];
  return [
    ...(lost.length > 0 ? [`Keys made since, which are gone: ${lost.join(", ")}.`] : []),
    ...(back.length > 0 ? [`Keys that were gone, and are valid again: ${back.join(", ")}.`] : []),
    ...lists.filter(({ length }) => length > 1).map((lines) => lines.join("\n  ")),
  ];
}

function describeUndo(target: RemoteTarget, { previousBookmark }: Restoration): string {
  return `To undo this: ${restoreLine(target, previousBookmark)}`;
}

function restoreLine({ env, name }: RemoteTarget, bookmark: string): string {
  return `npm run time-travel -- restore --env ${env} --database ${name} --bookmark ${bookmark}`;
}
