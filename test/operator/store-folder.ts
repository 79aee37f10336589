import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Command } from "commander";
import { LAYOUT_VERSION } from "../../src/operator/database/local-store.ts";
import { keysProgram } from "../../src/operator/keys/program.ts";
import { ordersProgram } from "../../src/operator/orders/program.ts";
import { type Outcome, withoutProgress } from "./deploy/run-command.ts";
import { copyMigratedStore } from "../support/migrated-store.ts";
import { runInProcess } from "./in-process.ts";

/** A temporary folder with a local store. Commands on the store run in this process. */
export class StoreFolder {
  readonly path = mkdtempSync(join(tmpdir(), "store-orders-test-"));
  #made: Promise<void> | undefined;

  keys(...args: string[]): Promise<Outcome> {
    return this.#run(keysProgram(), args);
  }

  orders(args: readonly string[], input?: string): Promise<Outcome> {
    return this.#run(ordersProgram(), args, input);
  }

  /** Runs `keys ... --json`, which has to succeed with only progress on stderr. */
  async keysJson(...args: string[]): Promise<any> {
    return parse(await this.keys(...args, "--json"));
  }

  /** Runs `orders ... --json`, which has to succeed with only progress on stderr. */
  async ordersJson(args: readonly string[], input?: string): Promise<any> {
    return parse(await this.orders([...args, "--json"], input));
  }

  /** Copies a migrated store without data into the folder, unless the folder has a store. */
  make(): Promise<void> {
    this.#made ??= existsSync(join(this.path, LAYOUT_VERSION))
      ? Promise.resolve()
      : copyMigratedStore(this.path);
    return this.#made;
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  async #run(program: Command, args: readonly string[], input?: string): Promise<Outcome> {
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
