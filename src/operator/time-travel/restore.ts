import { CloudflareError } from "../cloudflare-api.ts";
import { connect, findBookmark, restoreBookmark, type Restoration } from "../database/d1-api.ts";
import { openRemoteDatabase, retrying } from "../database/remote.ts";
import { describeFailure, isMissingTable, type RemoteTarget } from "../database/remote-failure.ts";
import type { StoreDatabase } from "../database/database.ts";
import { currentActor } from "../key-store/change-key.ts";
import { describeDetails } from "../key-store/audit-trail.ts";
import { type KeyDetails, listApiKeys } from "../key-store/key-details.ts";
import { compareKeys, type KeyDifferences, settleRestoredKeys } from "./restored-keys.ts";

/** The result of a restoration, which `npm run time-travel` prints. */
interface RestoreReport extends Restoration {
  /**
   * How the restoration changed the API keys. Missing for the orders database; `null` if the keys
   * database had no table of keys before the restoration.
   */
  readonly keys?: KeyDifferences | null;
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
  const restoration = await restoreBookmark(connection, bookmark).catch((error: Error) => {
    throw describeFailedRestoration(target, error, { bookmark, back });
  });
  if (target.name === "orders") return restoration;
  try {
    const keys = former && compareKeys(former, await readKeys(database));
    await settleRestoredKeys(database, { former, keys, restoration, actor });
    return { ...restoration, keys };
  } catch (error) {
    throw new Error(
      "the database is restored, but its keys could not be compared with those before. Keys that had " +
        "been revoked or rotated since may be valid again, and limiters may go on as before: " +
        `${messageOf(error as Error)}\n${describeUndo(target, restoration.previousBookmark)}`,
      { cause: error },
    );
  }
}

/** @param back the command that returns to the state before. */
function describeFailedRestoration(
  target: RemoteTarget,
  cause: Error,
  { bookmark, back }: { readonly bookmark: string; readonly back: string },
): Error {
  const { message } = describeFailure(cause, target, "reads");
  if (cause instanceof CloudflareError && cause.isRefusal) {
    return new Error(`nothing was restored: ${message}`, { cause });
  }
  return new Error(
    `it is not known whether the database was restored (${message}). If it was, keys that had been ` +
      "revoked or rotated since may be valid again, and limiters go on as before. To restore it: " +
      `${restoreLine(target, bookmark)}\nTo return: ${back}`,
    { cause },
  );
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
    describeUndo(target, report.previousBookmark),
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

function describeUndo(target: RemoteTarget, previousBookmark: string): string {
  return `To undo this: ${restoreLine(target, previousBookmark)}`;
}

function restoreLine({ environment, name }: RemoteTarget, bookmark: string): string {
  return `npm run time-travel -- restore --env ${environment} --database ${name} --bookmark ${bookmark}`;
}

/**
 * Returns the message of the error's cause, if there is a cause, because drizzle's own message is
 * the SQL.
 */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
