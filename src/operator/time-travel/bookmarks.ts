import { BINDINGS } from "../database/database.ts";
import { describeFailure, type RemoteTarget } from "../database/remote-failure.ts";
import { runWrangler } from "../wrangler.ts";

/** The result of a restoration, as bookmarks. */
export interface Restoration {
  /** The present state of the database. */
  readonly bookmark: string;
  /** The state of the database before the restoration. */
  readonly previousBookmark: string;
}

/**
 * Asks D1 Time Travel for the bookmark of a state of a database.
 *
 * @param at the time of the state; by default now.
 * @throws an Error for the operator, also if the time is not within the last 30 days.
 */
export async function findBookmark(target: RemoteTarget, at?: Date): Promise<string> {
  const time = at === undefined ? [] : [`--timestamp=${at.toISOString()}`];
  const { bookmark } = await timeTravel<{ bookmark: string }>(target, "info", time, "reads");
  return bookmark;
}

/**
 * Puts a whole database back into the state of a bookmark. D1 cancels the queries under way.
 *
 * @throws an Error for the operator.
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
