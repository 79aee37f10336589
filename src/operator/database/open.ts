import { type Command, Option } from "commander";
import type { DatabaseName, StoreDatabase } from "./database.ts";
import { DEFAULT_STORE } from "./local-store.ts";
import { REMOTE_ENVIRONMENTS, type RemoteEnvironment } from "../environment.ts";

/** The store that a command acts on. */
interface StoreOptions {
  /** The environment whose remote database is used instead of a local store. */
  readonly env?: RemoteEnvironment;
  /** The folder of a local store. */
  readonly persistTo?: string;
  /** Opens the local database instead of `openLocalDatabase`. No option of a command line sets it. */
  readonly openLocal?: OpenLocal;
}

type OpenLocal = (persistTo: string, name: DatabaseName) => Promise<StoreDatabase>;

/** The options of every command on a store. */
export interface StoreCommandOptions extends StoreOptions {
  /** True prints one JSON value and nothing else. */
  readonly json: boolean;
}

/** Adds a command on a store to a program, with `--persist-to`, `--env` and `--json`. */
export function storeCommand(program: Command, usage: string): Command {
  return program
    .command(usage)
    .option("--persist-to <dir>", "folder of the local store (default: the one of `npm start`)")
    .addOption(
      new Option("--env <environment>", "act on this environment's remote database instead")
        .choices(REMOTE_ENVIRONMENTS)
        .conflicts("persistTo"),
    )
    .option("--json", "print one JSON value and nothing else", false);
}

/**
 * Opens a database of the store for `work` and closes it afterwards, also after an error.
 *
 * @throws the error of `work`; an Error for the operator if the store cannot be opened or migrated.
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
  { env, persistTo = DEFAULT_STORE, openLocal }: StoreOptions,
  name: DatabaseName,
): Promise<StoreDatabase> {
  if (env !== undefined) {
    const { openRemoteDatabase } = await import("./remote.ts");
    return openRemoteDatabase({ environment: env, name });
  }
  if (openLocal !== undefined) return openLocal(persistTo, name);
  const { openLocalDatabase } = await import("./local.ts");
  return openLocalDatabase(persistTo, name);
}
