import { resolve } from "node:path";
import type { Command } from "commander";
import { envOption, jsonOption, persistToOption, type RemoteEnvironment } from "../arguments.ts";
import type { StoreDatabase } from "../../store/database.ts";
import { DEFAULT_STORE, isStore } from "./local-store.ts";
import type { DatabaseName } from "../../schema/databases.ts";

/** The options of every command that uses a store. */
export interface StoreCommandOptions {
  /** The deployed environment whose databases are used instead of a local store. */
  readonly env?: RemoteEnvironment | undefined;
  readonly persistTo?: string;
  /** If true, the command prints one JSON value and nothing else. */
  readonly json: boolean;
}

type StoreOptions = Omit<StoreCommandOptions, "json">;

/** Adds a command that uses a store, with `--persist-to`, `--env` and `--json`. */
export function storeCommand(program: Command, usage: string): Command {
  const folder = persistToOption("folder of the local store (default: the folder of `npm start`)");
  const env = envOption("use the database of this deployed environment instead");
  const command = program.command(usage).addOption(folder).addOption(env.conflicts("persistTo"));
  return command.addOption(jsonOption());
}

/** Returns whether the store exists; always true for a deployed environment. */
export function hasStore({ env, persistTo = DEFAULT_STORE }: StoreOptions): boolean {
  return env !== undefined || isStore(persistTo);
}

/** @throws an Error for the operator if a command's store does not exist. */
export function requireStore(options: StoreOptions): void {
  if (hasStore(options)) return;
  const folder = resolve(options.persistTo ?? DEFAULT_STORE);
  const advice = "name the folder of a store with --persist-to, or make one with npm start";
  throw new Error(`there is no store in ${folder}, so nothing was done: ${advice}`);
}

/**
 * Opens a database of the store, runs `work` with it, and closes it, even after an error.
 *
 * @param mayMake if true, makes a local store if the folder has none, and says so on stderr.
 * @throws the error of `work`; an Error for the operator if no store can be opened.
 */
export async function useDatabase<T>(
  { env, persistTo = DEFAULT_STORE }: StoreOptions,
  name: DatabaseName,
  work: (database: StoreDatabase) => Promise<T>,
  { mayMake = false } = {},
): Promise<T> {
  const isNew = !hasStore({ env, persistTo });
  if (!mayMake) requireStore({ env, persistTo });
  // Imported on demand, because a command needs only one of the two modules.
  if (env !== undefined) {
    const { openRemoteDatabase } = await import("./remote.ts");
    return work(openRemoteDatabase({ env, name }));
  }
  const { openLocalDatabase } = await import("./local.ts");
  using database = await openLocalDatabase(persistTo, name);
  if (isNew) process.stderr.write(`Made a new store in ${resolve(persistTo)}.\n`);
  return await work(database);
}
