import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, runCommand, withoutProgress } from "../deploy/run-command.ts";

/** A folder of its own for a local store, and the real commands run on it. */
export class StoreFolder {
  readonly path = mkdtempSync(join(tmpdir(), "store-orders-test-"));

  keys(...args: string[]): Promise<Outcome> {
    return this.#run("keys", args);
  }

  orders(args: readonly string[], input?: string): Promise<Outcome> {
    return this.#run("orders", args, input);
  }

  /** Runs `keys ... --json`, which has to succeed with nothing but progress on stderr. */
  async keysJson(...args: string[]): Promise<any> {
    return parse(await this.keys(...args, "--json"));
  }

  /** Runs `orders ... --json`, which has to succeed with nothing but progress on stderr. */
  async ordersJson(args: readonly string[], input?: string): Promise<any> {
    return parse(await this.orders([...args, "--json"], input));
  }

  remove(): void {
    rmSync(this.path, { recursive: true, force: true });
  }

  #run(command: string, args: readonly string[], input?: string): Promise<Outcome> {
    return runCommand(
      process.execPath,
      [`src/cli/${command}.ts`, ...args, "--persist-to", this.path],
      { env: {}, ...(input !== undefined && { input }) },
    );
  }
}

function parse(outcome: Outcome): unknown {
  const { status, stdout, stderr } = outcome;
  if (status !== 0 || withoutProgress(outcome) !== "")
    throw new Error(`status ${status}: ${stderr}`);
  if (!/^.+\n$/.test(stdout)) throw new Error(`not one line of JSON: ${stdout}`);
  return JSON.parse(stdout);
}
