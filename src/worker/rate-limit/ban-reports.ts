import * as z from "zod/mini";
import { DatabaseQueries } from "../db/availability.ts";
import { logEvent } from "../log.ts";

const unreportedBanSchema = z.object({
  beganMs: z.number(),
  untilMs: z.number(),
  number: z.int(),
  /** The number of the key's resets that the limiter knew of when the ban began. */
  resets: z.int(),
});

/** A ban that may not be in the database yet. Times in Unix milliseconds. */
export type UnreportedBan = z.output<typeof unreportedBanSchema>;

// Inserts a ban. If the key has more resets than the limiter knew of when the ban began, a reset
// has lifted the ban, so `lifted_at` is set.
const INSERT = `
  INSERT INTO key_bans (key_id, began_at, ends_at, number, lifted_at)
  VALUES (?1, ?2, ?3, ?4, max(?2, (
    SELECT max(key_changes.at) FROM api_keys JOIN key_changes ON key_changes.key_id = api_keys.id
    WHERE api_keys.id = ?1 AND api_keys.resets > ?5 AND key_changes.action = 'reset')))
  ON CONFLICT DO NOTHING`;

/**
 * Reports the bans of one API key from its Durable Object to the database. A ban applies
 * immediately, without waiting for its report. So a new ban may be missing from the database.
 */
export class BanReports {
  readonly #keyId: string | null;
  #unreported: readonly UnreportedBan[];

  /**
   * @param stored a value that `toStored` of any version of the service returned, or `undefined`.
   */
  constructor(keyId: string | null, stored: unknown) {
    this.#keyId = keyId;
    const parsed = z._default(z.array(unreportedBanSchema), []).safeParse(stored);
    if (!parsed.success) logEvent({ event: "limiter_bans_unreadable", keyId });
    this.#unreported = parsed.data ?? [];
  }

  get isEmpty(): boolean {
    return this.#unreported.length === 0;
  }

  add(ban: UnreportedBan): void {
    this.#unreported = [...this.#unreported, ban];
  }

  /**
   * Returns the unreported bans to store, so that a restart loses no ban; `undefined` if there are
   * none.
   */
  toStored(): readonly UnreportedBan[] | undefined {
    return this.isEmpty ? undefined : this.#unreported;
  }

  /**
   * Inserts the unreported bans into the database. A repeated report changes nothing.
   *
   * @returns whether all reports succeeded. The next call of `report` reports the remaining bans.
   */
  async report(database: D1Database, timeoutMs: number): Promise<boolean> {
    for (const ban of this.#unreported) {
      const { beganMs, untilMs, number, resets } = ban;
      const insert = database.prepare(INSERT).bind(this.#keyId, beganMs, untilMs, number, resets);
      try {
        await new DatabaseQueries("keys", timeoutMs).run(() => insert.run());
      } catch (error) {
        logEvent({ event: "ban_unreported", keyId: this.#keyId, error });
        return false;
      }
      this.#unreported = this.#unreported.filter((other) => other !== ban);
    }
    return true;
  }
}
