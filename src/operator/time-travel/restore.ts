import { openRemoteDatabase } from "../database/remote.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { restoreBookmark, type Restoration } from "./bookmarks.ts";
import { compareKeys, type KeyDifferences, outrank, readKeys } from "./restored-keys.ts";

/** What a restoration did, for the operator. */
export type RestoreReport = Restoration & KeyDifferences;

/**
 * Puts the environment's database back into the state that a bookmark names, and sees to it that the
 * keys' limiters, which are not restored, follow the restored records.
 *
 * @throws an Error for the operator, which tells whether the database was restored.
 */
export async function restore(
  environment: RemoteEnvironment,
  bookmark: string,
): Promise<RestoreReport> {
  const database = await openRemoteDatabase(environment);
  // What is to be restored may be past reading.
  const former = await readKeys(database).catch(() => []);
  const restoration = await restoreBookmark(environment, bookmark);
  try {
    await outrank(database, former, new Date());
    return { ...restoration, ...compareKeys(former, await readKeys(database)) };
  } catch (error) {
    throw new Error(
      "the database is restored, but where keys had been changed since, their limiters may go on " +
        `as before: ${messageOf(error as Error)}\n${undo(environment, restoration)}`,
      { cause: error },
    );
  }
}

/** A report for people. */
export function describeRestore(environment: RemoteEnvironment, report: RestoreReport): string {
  const { bookmark, revived, rotatedBack, lost } = report;
  const lines = [
    `The database of ${environment} is back at ${bookmark}.`,
    undo(environment, report),
  ];
  if (lost.length > 0) lines.push(`Keys made since, which are gone: ${lost.join(", ")}.`);
  if (revived.length > 0) {
    lines.push("Keys revoked since, which are valid again. To revoke them once more:");
    lines.push(...revived.map((id) => `  npm run keys -- revoke ${id} --env ${environment}`));
  }
  if (rotatedBack.length > 0) {
    lines.push("Keys rotated since, of which the former secret is valid again. To rotate them:");
    lines.push(...rotatedBack.map((id) => `  npm run keys -- rotate ${id} --env ${environment}`));
  }
  return `${lines.join("\n")}\n`;
}

function undo(environment: RemoteEnvironment, { previousBookmark }: Restoration): string {
  return `To undo this: npm run time-travel -- restore --env ${environment} --bookmark ${previousBookmark}`;
}

/** drizzle's own message is the SQL; the operator's is below it. */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
