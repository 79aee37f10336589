import { describeFailure } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { runWrangler } from "../wrangler.ts";

/** What a restoration did. */
export interface Restoration {
  /** The state that the database is in now. */
  readonly bookmark: string;
  /** The state that it was in before. */
  readonly previousBookmark: string;
}

/**
 * Asks D1 Time Travel for the bookmark of the environment's database, which names one of its states.
 *
 * @param at the time of that state; now, if it is left out.
 * @throws an Error for the operator, also where the time is not within the last 30 days.
 */
export async function findBookmark(environment: RemoteEnvironment, at?: Date): Promise<string> {
  const time = at === undefined ? [] : [`--timestamp=${at.toISOString()}`];
  const { bookmark } = await timeTravel<{ bookmark: string }>(environment, "info", time, "reads");
  return bookmark;
}

/**
 * Puts the environment's database back into the state that a bookmark names, at once and whole.
 * Queries under way are cancelled.
 *
 * @throws an Error for the operator.
 */
export async function restoreBookmark(
  environment: RemoteEnvironment,
  bookmark: string,
): Promise<Restoration> {
  const restored = await timeTravel<{ bookmark: string; previous_bookmark: string }>(
    environment,
    "restore",
    [`--bookmark=${bookmark}`],
    "writes",
  );
  return { bookmark: restored.bookmark, previousBookmark: restored.previous_bookmark };
}

async function timeTravel<Result>(
  environment: RemoteEnvironment,
  command: "info" | "restore",
  args: readonly string[],
  change: "reads" | "writes",
): Promise<Result> {
  const target = ["DB", "--env", environment, "--json"];
  try {
    const { stdout } = await runWrangler(["d1", "time-travel", command, ...target, ...args]);
    return JSON.parse(stdout) as Result;
  } catch (error) {
    throw describeFailure(error as Error, environment, change);
  }
}
