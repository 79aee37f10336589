import { BINDINGS } from "../database/database.ts";
import { describeFailure, type RemoteTarget } from "../database/remote-failure.ts";
import { runWrangler } from "../wrangler.ts";

/** What a restoration did. */
export interface Restoration {
  /** The state that the database is in now. */
  readonly bookmark: string;
  /** The state that it was in before. */
  readonly previousBookmark: string;
}

/**
 * Asks D1 Time Travel for the bookmark of a database, which names one of its states.
 *
 * @param at the time of that state; now, if it is left out.
 * @throws an Error for the operator, also where the time is not within the last 30 days.
 */
export async function findBookmark(target: RemoteTarget, at?: Date): Promise<string> {
  const time = at === undefined ? [] : [`--timestamp=${at.toISOString()}`];
  const { bookmark } = await timeTravel<{ bookmark: string }>(target, "info", time, "reads");
  return bookmark;
}

/**
 * Puts a database back into the state that a bookmark names, at once and whole.
 * Queries under way are cancelled.
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
