import * as z from "zod/mini";
import { DatabaseQueries } from "../db/availability.ts";
import { logEvent } from "../log.ts";

const unreportedBanSchema = z.object({
  beganMs: z.number(),
  untilMs: z.number(),
  number: z.int(),
  /** The number of resets that the limiter knew of. */
  resets: z.int(),
});

/** A ban that the database may not know yet. Times in Unix milliseconds. */
export type UnreportedBan = z.output<typeof unreportedBanSchema>;

// A reset lifts the ban even if it came between the ban and this report, or if the limiter did not
// know of the reset when it banned the key.
const INSERT = `
  INSERT INTO key_bans (key_id, began_at, ends_at, number, lifted_at)
  VALUES (?1, ?2, ?3, ?4, max(?2, (
    SELECT max(key_changes.at) FROM api_keys JOIN key_changes ON key_changes.key_id = api_keys.id
    WHERE api_keys.id = ?1 AND api_keys.resets > ?5 AND key_changes.action = 'reset')))
  ON CONFLICT DO NOTHING`;

/**
 * Reports the bans of one API key from its Durable Object to the database. A ban holds at once and
 * waits for no report, so the database may show it late.
 */
export class BanReports {
  readonly #keyId: string | null;
  #unreported: readonly UnreportedBan[];

  /** @param stored the value that `toStored` of any version returned, or `undefined`. */
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

  /** Returns the bans to store, so that a restart loses none; `undefined` if there are none. */
  toStored(): readonly UnreportedBan[] | undefined {
    return this.isEmpty ? undefined : this.#unreported;
  }

  /**
   * Adds the bans to the database. Repeating a report changes nothing.
   *
   * @returns whether all reports succeeded. Bans that are not reported stay for the next report.
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
