import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, expect, vi } from "vitest";
import * as databases from "../../../src/operator/database/database.ts";
import { databaseFile } from "../../../src/operator/database/local-store.ts";
import { addKeys } from "../../../src/operator/keys/change-key.ts";
import {
  createApiKey,
  type CreatedKey,
  type KeyDetails,
  type NewKeySettings,
} from "../../../src/operator/keys/key-changes.ts";
import { OpenStore } from "../store-folder.ts";

export const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Returns the non-empty cells of a printed table, row by row, the titles first. */
export function tableCells(stdout: string): string[][] {
  const rows = stdout.split("\n").map((line) => line.trim().split(/ {2,}/));
  return rows.filter(({ length }) => length > 1);
}

/** Runs `npm run keys` in this process, on a new store, whose clock is that of this process. */
export class KeysCommand {
  readonly #store = new OpenStore();
  readonly path = this.#store.path;
  readonly database = () => this.#store.database("keys");
  readonly run = (...args: string[]) => this.#store.keys(...args);
  /** Runs a `keys` command with `--json`, expects it to succeed, and returns the parsed JSON. */
  readonly json = (...args: string[]) => this.#store.keysJson(...args);

  constructor() {
    beforeAll(() => {
      vi.spyOn(databases, "databaseTime").mockImplementation(async () => new Date());
    });
    afterAll(() => this.#store.close());
  }

  /** Runs one statement on the keys database, and returns its rows. */
  async rows(sql: string): Promise<any[]> {
    await this.database();
    using sqlite = new DatabaseSync(databaseFile(this.path, "keys"), { timeout: 10_000 });
    sqlite.exec("PRAGMA ignore_check_constraints = ON");
    return sqlite.prepare(sql).all();
  }

  async text(...args: string[]): Promise<string> {
    const { status, stdout, stderr } = await this.run(...args);
    expect(status, stderr).toBe(0);
    return stdout + stderr;
  }

  async add(
    settings: Partial<NewKeySettings> = {},
    { createdAt = new Date(), ...details }: Partial<KeyDetails> = {},
  ): Promise<CreatedKey> {
    const all = { name: "Zoo", plan: "free", limits: null, expiresAt: null, ...settings } as const;
    const created = createApiKey(all, createdAt);
    await addKeys(await this.database(), [{ ...created.record, ...details }]);
    return created;
  }
}
