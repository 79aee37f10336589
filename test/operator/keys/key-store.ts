import { afterAll, beforeAll, vi } from "vitest";
import * as databases from "../../../src/store/database.ts";
import { openLocalDatabase } from "../../../src/operator/database/local.ts";
import { addKeys } from "../../../src/store/keys/change-key.ts";
import { createApiKey, type KeyDetails } from "../../../src/store/keys/key-settings.ts";
import { StoreFolder } from "../store-folder.ts";

/** A new store for `npm run keys`, whose clock is that of this process. */
export class KeyStore extends StoreFolder {
  database!: Awaited<ReturnType<typeof openLocalDatabase>>;

  constructor() {
    super();
    beforeAll(async () => {
      vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
      this.database = await openLocalDatabase(this.path, "keys");
    });
    afterAll(() => this.database[Symbol.dispose]());
  }

  /** Stores a key with fields that no command can give it, such as an expiry in the past. */
  async add(fields: Partial<KeyDetails> = {}) {
    const { key, record } = createApiKey({ name: "Zoo", plan: "free" }, new Date());
    const stored = { ...record, ...fields };
    await addKeys(this.database, [stored], "test");
    return { key, record: stored };
  }
}
