import { DatabaseSync } from "node:sqlite";
import type { Command } from "commander";
import { vi } from "vitest";
import { openLocalDatabase } from "../../src/operator/database/local.ts";
import { isStore } from "../../src/operator/database/local-store.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { DATABASE_NAMES } from "../../src/schema/databases.ts";
import { testFolder } from "../support/test-folder.ts";
import { type Outcome, runInProcess, withoutProgress } from "./commands.ts";

/** A temporary folder with a local store, on which commands run in this process. */
export class StoreFolder {
  readonly path = testFolder();

  keys(...args: string[]): Promise<Outcome> {
    return this.run(keysProgram(), args);
  }

  orders(args: readonly string[], input?: string): Promise<Outcome> {
    return this.run(ordersProgram(), args, input);
  }

  /** Returns a command's JSON. @throws an Error if it fails or prints an unexpected message. */
  async keysJson(...args: string[]): Promise<any> {
    return parse(await this.keys(...args, "--json"));
  }

  async ordersJson(args: readonly string[], input?: string): Promise<any> {
    return parse(await this.orders([...args, "--json"], input));
  }

  /** Creates an empty store, unless the folder already has one. */
  async make(): Promise<void> {
    if (isStore(this.path)) return;
    for (const name of DATABASE_NAMES) {
      (await openLocalDatabase(this.path, name))[Symbol.dispose]();
    }
  }

  private async run(program: Command, args: readonly string[], input?: string): Promise<Outcome> {
    await this.make();
    return runInProcess(program, [...args, "--persist-to", this.path], input);
  }
}

function parse(outcome: Outcome): unknown {
  const { status, stdout, stderr } = outcome;
  const messages = withoutProgress(outcome).replace(/^warning: .*\n/gm, "");
  if (status !== 0 || messages !== "") throw new Error(`status ${status}: ${stderr}`);
  if (!/^.+\n$/.test(stdout)) throw new Error(`not one line of JSON: ${stdout}`);
  return JSON.parse(stdout);
}

/** Calls `before` before each statement that a command prepares on an SQLite file. */
export function beforeStatements(before: (query: string, sqlite: DatabaseSync) => void) {
  const { prototype } = DatabaseSync;
  const prepare = Reflect.get(prototype, "prepare");
  return vi.spyOn(prototype, "prepare").mockImplementation(function (this: DatabaseSync, query) {
    before(query, this);
    return Reflect.apply(prepare, this, [query]);
  });
}
