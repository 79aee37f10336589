import { BINDINGS } from "../database/database.ts";
import { describeFailure, type RemoteTarget } from "../database/remote-failure.ts";
import { runWrangler } from "../wrangler.ts";

/** The bookmarks of a database after and before a restoration. */
export interface Restoration {
  /** The bookmark of the state after the restoration. */
  readonly bookmark: string;
  /** The bookmark of the state before the restoration. */
  readonly previousBookmark: string;
}

/**
 * Finds the bookmark of a database's state in D1 Time Travel.
 *
 * @param at the time of the state; by default the present.
 * @throws an Error for the operator if the query fails or the time is not within the last 30 days.
 */
export async function findBookmark(target: RemoteTarget, at?: Date): Promise<string> {
  const time = at === undefined ? [] : [`--timestamp=${at.toISOString()}`];
  const { bookmark } = await timeTravel<{ bookmark: string }>(target, "info", time, "reads");
  return bookmark;
}

/**
 * Restores a whole database to the state of a bookmark. D1 cancels all queries that are running.
 *
 * @throws an Error for the operator if the restoration fails.
 */
export async function restoreBookmark(
  target: RemoteTarget,
  bookmark: string,
): Promise<Restoration> {
  const restored = await timeTravel<{ bookmark: string; previous_bookmark: string }>(
    target,
    "restore",
    [`--bookmark=${bookmark}`],
    "writes",
  );
  return { bookmark: restored.bookmark, previousBookmark: restored.previous_bookmark };
}

async function timeTravel<Result>(
  target: RemoteTarget,
  command: "info" | "restore",
  args: readonly string[],
  change: "reads" | "writes",
): Promise<Result> {
  const database = [BINDINGS[target.name], "--env", target.environment, "--json"];
  try {
    const { stdout } = await runWrangler(["d1", "time-travel", command, ...database, ...args]);
    return JSON.parse(stdout) as Result;
  } catch (error) {
    throw describeFailure(error as Error, target, change);
  }
}
