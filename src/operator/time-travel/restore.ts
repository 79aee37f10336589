import { openRemoteDatabase } from "../database/remote.ts";
import { isMissingTable, type RemoteTarget } from "../database/remote-failure.ts";
import type { StoreDatabase } from "../database/database.ts";
import { currentActor } from "../key-store/actor.ts";
import { describeDetails } from "../key-store/audit-trail.ts";
import { type KeyDetails, listApiKeys } from "../key-store/key-details.ts";
import { restoreBookmark, type Restoration } from "./bookmarks.ts";
import { compareKeys, type KeyDifferences, settleRestoredKeys } from "./restored-keys.ts";

/** The result of a restoration, which the command prints. */
interface RestoreReport extends Restoration {
  /**
   * How the keys changed. Missing for the orders database; `null` if the keys database had no table
   * of keys before the restoration.
   */
  readonly keys?: KeyDifferences | null;
}

/**
 * Restores a database to the state of a bookmark.
 *
 * The limiter of a key is a Durable Object, which D1 Time Travel does not restore. So a restoration
 * of the keys database also makes every limiter use its restored key. This process keeps all keys
 * in memory twice, to compare the keys before and after the restoration.
 *
 * @throws an Error for the operator if a step fails. The message says whether the database is
 *   restored.
 */
export async function restore(target: RemoteTarget, bookmark: string): Promise<RestoreReport> {
  return target.name === "keys" ? restoreKeys(target, bookmark) : restoreBookmark(target, bookmark);
}

async function restoreKeys(target: RemoteTarget, bookmark: string): Promise<RestoreReport> {
  const actor = currentActor();
  const database = await openRemoteDatabase(target);
  const former = await readFormerKeys(database);
  const restoration = await restoreBookmark(target, bookmark);
  try {
    const keys = former && compareKeys(former, await readKeys(database));
    await settleRestoredKeys(database, { former, keys, restoration, actor });
    return { ...restoration, keys };
  } catch (error) {
    throw new Error(
      "the database is restored, but its keys could not be compared with those before. Keys that had " +
        "been revoked or rotated since may be valid again, and limiters may go on as before: " +
        `${messageOf(error as Error)}\n${describeUndo(target, restoration)}`,
      { cause: error },
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
  } catch (error) {
    if (isMissingTable(error)) return null;
    throw new Error(
      `nothing was restored, because the keys could not be read: ${messageOf(error as Error)}`,
      { cause: error },
    );
  }
}

function readKeys({ orm }: StoreDatabase): Promise<KeyDetails[]> {
  return listApiKeys(orm, {}, new Date());
}

/** Formats the result of a restoration as text. */
export function describeRestore(target: RemoteTarget, report: RestoreReport): string {
  const { environment, name } = target;
  const lines = [
    `The ${name} database of ${environment} is back at ${report.bookmark}.`,
    describeUndo(target, report),
  ];
  if (report.keys === null) {
    lines.push(
      "It had no table of keys before, so nothing could be compared. Look at the keys:",
      `  npm run keys -- list --env ${environment}`,
    );
  } else if (report.keys !== undefined) lines.push(...describeKeys(environment, report.keys));
  return `${lines.join("\n")}\n`;
}

function describeKeys(
  environment: string,
  { revived, rotatedBack, lost, back, changed }: KeyDifferences,
): string[] {
  const lines: string[] = [];
  if (lost.length > 0) lines.push(`Keys made since, which are gone: ${lost.join(", ")}.`);
  if (back.length > 0) lines.push(`Keys that were gone, and are valid again: ${back.join(", ")}.`);
  if (revived.length > 0) {
    lines.push("Keys revoked since, which are valid again. To revoke them once more:");
    lines.push(...revived.map((id) => `  npm run keys -- revoke ${id} --env ${environment}`));
  }
  if (rotatedBack.length > 0) {
    lines.push("Keys rotated since, of which the former secret is valid again. To rotate them:");
    lines.push(...rotatedBack.map((id) => `  npm run keys -- rotate ${id} --env ${environment}`));
  }
  const named = new Set([...lost, ...back]);
  const kept = changed.filter(({ id }) => !named.has(id));
  if (kept.length > 0) {
    lines.push("What changed in the records of keys:");
    lines.push(...kept.map(({ id, details }) => `  ${id} ${describeDetails(details)}`));
  }
  return lines;
}

function describeUndo(
  { environment, name }: RemoteTarget,
  { previousBookmark }: Restoration,
): string {
  return `To undo this: npm run time-travel -- restore --env ${environment} --database ${name} --bookmark ${previousBookmark}`;
}

/** Returns the message of the cause, if there is one, because drizzle's own message is the SQL. */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
