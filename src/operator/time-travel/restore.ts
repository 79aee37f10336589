import { openRemoteDatabase } from "../database/remote.ts";
import { isMissingTable } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { restoreBookmark, type Restoration } from "./bookmarks.ts";
import { compareKeys, type KeyDifferences, outrankLimiters, readKeys } from "./restored-keys.ts";

/** The result of a restoration, for the operator. */
type RestoreReport = Restoration & KeyDifferences;

/**
 * Puts the environment's database back into the state of a bookmark. The keys' limiters are not
 * restored, so this also makes them follow the restored keys. Two states of all keys are compared
 * in memory.
 *
 * @throws an Error for the operator that says whether the database was restored.
 */
export async function restore(
  environment: RemoteEnvironment,
  bookmark: string,
): Promise<RestoreReport> {
  const database = await openRemoteDatabase(environment);
  // A restoration may be what brings the table back.
  const former = await readKeys(database).catch((error: unknown) => {
    if (isMissingTable(error)) return [];
    throw error;
  });
  const restoration = await restoreBookmark(environment, bookmark);
  try {
    await outrankLimiters(database, former, new Date());
    return { ...restoration, ...compareKeys(former, await readKeys(database)) };
  } catch (error) {
    throw new Error(
      "the database is restored, but the limiters of keys that were changed since may go on as " +
        `before: ${messageOf(error as Error)}\n${describeUndo(environment, restoration)}`,
      { cause: error },
    );
  }
}

/** Formats a report for people. */
export function describeRestore(environment: RemoteEnvironment, report: RestoreReport): string {
  const { bookmark, revived, rotatedBack, lost } = report;
  const lines = [
    `The database of ${environment} is back at ${bookmark}.`,
    describeUndo(environment, report),
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

function describeUndo(environment: RemoteEnvironment, { previousBookmark }: Restoration): string {
  return `To undo this: npm run time-travel -- restore --env ${environment} --bookmark ${previousBookmark}`;
}

/** drizzle's own message is the SQL; the message for the operator is in the cause. */
function messageOf(error: Error): string {
  return error.cause instanceof Error ? error.cause.message : error.message;
}
