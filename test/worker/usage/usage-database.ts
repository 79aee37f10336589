import type { Ban } from "../../../src/rules/limits/bans.ts";
import type { Decision } from "../../../src/rules/limits/decision.ts";
import { openMigrated } from "../../operator/orders/memory-store.ts";
import { prepare } from "../orders/isolates/order-database.ts";

/** The key of a world. */
export const KEY_ID = "simulated";

const COUNTS = { admitted: 0, refused: 0, strikes: 0, bans: 0, peakMinute: 0, peakDay: 0 };
const UNUSED = { ...COUNTS, perMinute: 0, perDay: 0 };

/** What operators read: the usage of a key on each day in UTC, and its bans, the oldest first. */
export interface Sum {
  readonly days: Readonly<Record<string, Readonly<typeof UNUSED>>>;
  /** `resets`: how many the limiter knew of. `liftedMs`: in the database. */
  readonly bans: readonly (Ban & { resets?: number; liftedMs?: number | null })[];
}

/** Before any report, there are the usage and the ban of another key, whose limiter's clock is ahead. */
const AHEAD = { beganMs: 4e13, untilMs: 4e13 + 1, number: 1, resets: 1e9 };
export const NOTHING: Sum = { days: { "2999-12-31": { ...UNUSED, admitted: 1 } }, bans: [AHEAD] };

/** Adds a decision to a sum, as docs/operating.md says. */
export function plus(
  { days, bans }: Sum,
  { nowMs, admitted, minute, day }: Decision,
  more: { refused: number; strikes: number; resets: number; newBan: Ban | null },
): Sum {
  const today = new Date(nowMs).toISOString().slice(0, 10);
  const before = days[today] ?? UNUSED;
  const { refused, strikes, resets, newBan } = more;
  const isBan = newBan !== null && !newBan.loggedOnly;
  const after = {
    admitted: before.admitted + Number(admitted),
    refused: before.refused + Number(!admitted) + refused,
    strikes: before.strikes + strikes,
    bans: before.bans + Number(isBan),
    peakMinute: Math.max(before.peakMinute, minute.limit - minute.remaining),
    peakDay: Math.max(before.peakDay, day.limit - day.remaining),
    perMinute: minute.limit,
    perDay: day.limit,
  };
  const allBans = isBan ? [...bans, { ...newBan, resets }] : bans;
  return { days: { ...days, [today]: after }, bans: allBans };
}

const NEIGHBOUR = `
  INSERT INTO key_usage VALUES ('another', '2999-12-31', 1, 0, 0, 0, 0, 0, 0, 0, 1);
  INSERT INTO key_bans VALUES ('another', ${AHEAD.beganMs}, ${AHEAD.untilMs}, 1, NULL);`;

const USAGE = `SELECT day, admitted, refused, strikes, bans, peak_minute AS peakMinute,
  peak_day AS peakDay, per_minute AS perMinute, per_day AS perDay FROM key_usage ORDER BY day`;
const BANS = `SELECT began_at AS beganMs, ends_at AS untilMs, number,
  lifted_at AS liftedMs FROM key_bans ORDER BY key_id, began_at`;

/** Changes a key and records the change, like the commands, and another change a moment later. */
const changed = (id: string, action: string, resets: number) => `
  INSERT OR REPLACE INTO api_keys (id, hash, last_four, name, plan, created_at, resets)
  VALUES ('${id}', '${id}', 'last', '${id}', 'free', 1, ${resets});
  INSERT INTO key_changes (at, actor, action, key_id, details)
  VALUES (${Date.now()}, 'test', '${action}', '${id}', '{}'),
    (${Date.now() + 1}, 'test', 'update', '${id}', '{}');`;

/** The keys database of a world. */
export class UsageDatabase {
  readonly #sqlite = openMigrated("keys");
  /** What a Durable Object calls. `send` comes before each transaction. */
  readonly d1: object;

  constructor(send: (transact: () => void) => Promise<void>) {
    this.#sqlite.function("now_microseconds", () => BigInt(Date.now()) * 1_000n);
    this.#sqlite.exec(changed(KEY_ID, "create", 0) + NEIGHBOUR + changed("another", "reset", 1));
    const batch = async (statements: readonly { sql: string; values: [] }[]) => {
      await send(() => {
        this.#sqlite.exec("BEGIN");
        for (const { sql, values } of statements) prepare(this.#sqlite, sql).run(...values);
        this.#sqlite.exec("COMMIT");
      });
      return [];
    };
    this.d1 = { prepare: (sql: string) => ({ bind: (...values: []) => ({ sql, values }) }), batch };
  }

  change(action: "update" | "reset", resets: number): void {
    this.#sqlite.exec(changed(KEY_ID, action, resets));
    const lift = `UPDATE key_bans SET lifted_at = ?1
      WHERE key_id = ?2 AND ends_at > ?1 AND lifted_at IS NULL`;
    if (action === "reset") prepare(this.#sqlite, lift).run(Date.now(), KEY_ID);
  }

  read(): Sum {
    const [usage, bans] = [USAGE, BANS].map((sql) => prepare(this.#sqlite, sql).all());
    const days = Object.fromEntries(usage!.map(({ day, ...counts }) => [day, counts]));
    return { days, bans } as unknown as Sum;
  }

  /** The number of rows that were written. */
  get writes(): number {
    return Number(prepare(this.#sqlite, "SELECT total_changes() AS n").get()!["n"]);
  }
}
