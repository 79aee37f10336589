import * as z from "zod/mini";
import { DatabaseQueries } from "../db/availability.ts";
import { logEvent } from "../log.ts";

const unreportedBanSchema = z.object({
  beganMs: z.number(),
  untilMs: z.number(),
  number: z.int(),
  /** How often the operator had reset the key, as far as its limiter knew. */
  resets: z.int(),
});

/** A ban that the database may not know yet. Times in Unix milliseconds. */
export type UnreportedBan = z.output<typeof unreportedBanSchema>;

// A reset that the limiter had not learned of when it banned the key, or that came before this
// report, has lifted the ban.
const INSERT = `
  INSERT INTO key_bans (key_id, began_at, ends_at, number, lifted_at)
  VALUES (?1, ?2, ?3, ?4, max(?2, (
    SELECT max(key_changes.at) FROM api_keys JOIN key_changes ON key_changes.key_id = api_keys.id
    WHERE api_keys.id = ?1 AND api_keys.resets > ?5 AND key_changes.action = 'reset')))
  ON CONFLICT DO NOTHING`;

/** The bans of one API key on their way from its Durable Object to the database. */
export class BanReports {
  readonly #keyId: string | null;
  #unreported: readonly UnreportedBan[];

  /** @param stored what `toStored` returned to this version or another one, or `undefined`. */
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

  /** What must be stored now, so that a restart loses no ban; `undefined`: nothing. */
  toStored(): readonly UnreportedBan[] | undefined {
    return this.isEmpty ? undefined : this.#unreported;
  }

  /**
   * Adds the bans to the database. Repeating a report changes nothing.
   *
   * @returns whether that succeeded; what is not reported stays.
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
