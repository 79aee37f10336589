import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, vi } from "vitest";
import * as databases from "../../../src/store/database.ts";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { addKeys } from "../../../src/store/keys/change-key.ts";
import { createApiKey, type KeyDetails } from "../../../src/store/keys/key-settings.ts";
import { StoreFolder } from "../store-folder.ts";

export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** A new store for `npm run keys`, whose clock is that of this process. */
export class KeyStore extends StoreFolder {
  #database: ReturnType<typeof openLocalDatabase> | undefined;

  constructor() {
    super();
    beforeAll(() => {
      vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
    });
    afterAll(async () => (await this.#database)?.[Symbol.dispose]());
  }

  database(): Promise<databases.StoreDatabase> {
    this.#database ??= openLocalDatabase(this.path, "keys");
    return this.#database;
  }

  /** Runs one statement on the keys database, and returns its rows. */
  async rows(sql: string): Promise<any[]> {
    await this.database();
    using sqlite = new DatabaseSync(databaseFile(this.path, "keys"), { timeout: 10_000 });
    return sqlite.prepare(sql).all();
  }

  /** Stores a key with fields that no command can give it, such as an expiry in the past. */
  async add(fields: Partial<KeyDetails> = {}) {
    const { key, record } = createApiKey({ name: "Zoo", plan: "free" }, new Date());
    const stored = { ...record, ...fields };
    await addKeys(await this.database(), [stored], "test");
    return { key, record: stored };
  }
}
