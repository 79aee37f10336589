import { expect } from "vitest";
import {
  createApiKey,
  type CreatedKey,
  type NewKeySettings,
} from "../../../src/operator/key-store/administration.ts";
import type { KeyDetails } from "../../../src/operator/key-store/key-details.ts";
import type { StoreDatabase } from "../../../src/operator/database/database.ts";
import { addKeys } from "../../../src/operator/key-store/change-key.ts";
import type { Outcome } from "../deploy/run-command.ts";
import { OpenStore } from "../store-folder.ts";

/** Runs `npm run keys` in this process, on a new store. */
export class KeysCommand {
  readonly #store: OpenStore;
  /** The keys database, for tests that insert or read rows directly. */
  readonly database: StoreDatabase;

  private constructor(store: OpenStore, database: StoreDatabase) {
    this.#store = store;
    this.database = database;
  }

  static async open(): Promise<KeysCommand> {
    const store = new OpenStore();
    return new KeysCommand(store, await store.database("keys"));
  }

  close(): Promise<void> {
    return this.#store.close();
  }

  run(...args: string[]): Promise<Outcome> {
    return this.#store.keys(...args);
  }

  /** Runs a `keys` command, expects it to succeed, and returns its output: data, then words. */
  async text(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await this.run(...args);
    expect(status, stderr).toBe(0);
    return stdout + stderr;
  }

  /** Runs a `keys` command with `--json`, expects it to succeed, and returns the parsed JSON. */
  async json(...args: string[]): Promise<any> {
    const { status, stdout, stderr } = await this.run(...args, "--json");
    expect({ status, stderr }).toEqual({ status: 0, stderr: "" });
    return JSON.parse(stdout);
  }

  /** Adds a key as `keys create` does. By default the key has the Free plan. */
  async add(
    settings: Partial<NewKeySettings> = {},
    { createdAt = new Date(), ...details }: Partial<KeyDetails> = {},
  ): Promise<CreatedKey> {
    const all = { name: "Zoo", plan: "free", limits: null, expiresAt: null, ...settings } as const;
    const created = createApiKey(all, createdAt);
    await addKeys(this.database, [{ ...created.record, ...details }]);
    return created;
  }
}
