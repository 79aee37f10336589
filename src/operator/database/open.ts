import { type Command, Option } from "commander";
import type { DatabaseName, StoreDatabase } from "./database.ts";
import { DEFAULT_STORE } from "./local-store.ts";
import { REMOTE_ENVIRONMENTS, type RemoteEnvironment } from "../environment.ts";

/** The options that select the store of a command. */
interface StoreOptions {
  /** The deployed environment whose databases are used instead of a local store. */
  readonly env?: RemoteEnvironment;
  /** The folder of a local store. */
  readonly persistTo?: string;
}

/** The options of every command that uses a store. */
export interface StoreCommandOptions extends StoreOptions {
  /** If true, the command prints one JSON value and nothing else. */
  readonly json: boolean;
}

/**
 * Adds, to a command-line program, a command that uses a store, with `--persist-to`, `--env` and
 * `--json`.
 */
export function storeCommand(program: Command, usage: string): Command {
  return program
    .command(usage)
    .option("--persist-to <dir>", "folder of the local store (default: the folder of `npm start`)")
    .addOption(
      new Option("--env <environment>", "use the database of this deployed environment instead")
        .choices(REMOTE_ENVIRONMENTS)
        .conflicts("persistTo"),
    )
    .option("--json", "print one JSON value and nothing else", false);
}

/**
 * Opens a database of the store, runs `work` with it, and closes it, even after an error.
 *
 * @throws the error of `work`; an Error for the operator if the database cannot be opened or
 *   migrated.
 */
export async function useDatabase<T>(
  options: StoreOptions,
  name: DatabaseName,
  work: (database: StoreDatabase) => Promise<T>,
): Promise<T> {
  const database = await openDatabase(options, name);
  try {
    return await work(database);
  } finally {
    await database.close();
  }
}

async function openDatabase(
  { env, persistTo = DEFAULT_STORE }: StoreOptions,
  name: DatabaseName,
): Promise<StoreDatabase> {
  if (env !== undefined) {
    const { openRemoteDatabase } = await import("./remote.ts");
    return openRemoteDatabase({ environment: env, name });
  }
  const { openLocalDatabase } = await import("./local.ts");
  return openLocalDatabase(persistTo, name);
}
