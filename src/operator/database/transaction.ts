import type { DatabaseSync } from "node:sqlite";
import { retryWhileBusy } from "./retry-while-busy.ts";

/**
 * Runs `work` in one transaction of a local database: all of its changes are stored, or none.
 * Repeats the transaction while another process locks the database (see `retryWhileBusy`).
 */
export function inTransaction<T>(sqlite: DatabaseSync, work: () => T): Promise<T> {
  return retryWhileBusy(async () => {
    sqlite.exec("BEGIN IMMEDIATE");
    try {
      const result = work();
      sqlite.exec("COMMIT");
      return result;
    } catch (error) {
      if (sqlite.isTransaction) sqlite.exec("ROLLBACK");
      throw error;
    }
  });
}
