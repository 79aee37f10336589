import { DurableObject } from "cloudflare:workers";
import { type Config, parseConfig } from "../config.ts";
import { logEvent } from "../log.ts";
import { KeyUsage } from "../usage/key-usage.ts";
import { REPORT_EVERY_MS } from "../usage/report-interval.ts";
import { BanReports } from "./ban-reports.ts";
import { banLengthMs } from "../limits/bans.ts";
import { decideOnce, type ObjectState } from "./decide-once.ts";
import {
  type Decision,
  type LimiterState,
  type QuotaPolicy,
  stateEndMs,
} from "../limits/decision.ts";
import { GroupCommit } from "./group-commit.ts";
import { keyIdOf } from "./limiter.ts";
import { readKeyId, readObjectState, type StoredState, toStored } from "./stored-state.ts";

/** One row for everything that a limiter stores, so that a commit writes one row. */
const STATE = "record";

/** After this time a ban is reported again that the database did not take. */
const BAN_RETRY_MS = 60_000;

/**
 * The limiter of one API key. It decides on its state in one synchronous step. Requests that are
 * decided while a write is on its way share the next write, and no answer leaves before the write
 * that holds its decision is on the disk.
 *
 * While a record is stored an alarm is set: for the next report of the usage to the database, or for
 * the end of both, so that an idle object removes itself.
 */
export class RateLimiter extends DurableObject {
  readonly #config: Config;
  #state: ObjectState;
  readonly #usage: KeyUsage;
  readonly #bans: BanReports;
  readonly #commits: GroupCommit;
  /** Unix time in milliseconds; `null` where none is set and while it is under way. */
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#config = parseConfig(env);
    const stored = ctx.storage.kv.get(STATE);
    this.#state = readObjectState(stored);
    if (stored !== undefined && this.#state.record === null)
      logEvent({ event: "limiter_record_unreadable" });
    // An object that was opened by its id alone has no name.
    const keyId = keyIdOf(ctx.id.name) ?? readKeyId(stored);
    this.#usage = new KeyUsage(keyId, Object(stored).usage);
    this.#bans = new BanReports(keyId, Object(stored).unreportedBans);
    this.#commits = new GroupCommit(
      () => this.#write(),
      () => ctx.storage.sync(),
    );
    void ctx.blockConcurrencyWhile(async () => {
      this.#alarmMs = await ctx.storage.getAlarm();
    });
  }

  /**
   * Counts one request if it is admitted, or its refusal.
   *
   * @param refusedAgesMs how many milliseconds ago requests were refused elsewhere by what this
   *   object had decided, the oldest first: those that may be strikes.
   * @param refusedElsewhere how many were so refused in all, and are not counted yet.
   * @param nonce is the same each time that a request is sent, so that it is counted once.
   * @throws {Error} if this is not the object of a key, or the decision cannot be stored.
   */
  async admit(
    policy: QuotaPolicy,
    refusedAgesMs: readonly number[] = [],
    refusedElsewhere = refusedAgesMs.length,
    nonce?: string,
  ): Promise<Decision> {
    if (this.#usage.keyId === null) throw new Error("This object limits no API key.");
    const nowMs = Date.now();
    const refusedElsewhereMs = refusedAgesMs.map((ageMs) => nowMs - ageMs);
    const before = this.#state.record;
    const { state, decision, consequences } = decideOnce(
      this.#state,
      { policy, nonce, refusedElsewhere, refusedElsewhereMs },
      this.#config.bans,
      nowMs,
    );
    const { record } = state;
    this.#state = state;
    const bans = consequences?.bans ?? 0;
    const enforcedBans = record?.ban?.loggedOnly ? 0 : bans;
    if (consequences !== null) this.#usage.count(decision, { ...consequences, bans: enforcedBans });
    if (enforcedBans > 0) this.#addBan(record);
    this.#tell(before, record, bans);
    await this.#store(before, nowMs);
    if (enforcedBans > 0) this.ctx.waitUntil(this.#reportBans());
    return decision;
  }

  /**
   * Reports what the key has used. Then removes all once it says nothing any more, and otherwise
   * looks again at its end.
   */
  override async alarm(): Promise<void> {
    this.#alarmMs = null;
    await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const isUsageReported = await this.#report();
    const areBansReported = this.#bans.isEmpty;
    // A request that came meanwhile has set another one.
    if (this.#alarmMs !== null) return;
    const nowMs = Date.now();
    const nextReportMs = nowMs + (areBansReported ? REPORT_EVERY_MS : BAN_RETRY_MS);
    if (!isUsageReported || !areBansReported) return this.#setAlarm(nextReportMs);
    const { record } = this.#state;
    const recordEnd = record === null ? 0 : stateEndMs(record, this.#config.bans);
    const endMs = Math.max(recordEnd, this.#usage.endMs);
    if (endMs > nowMs) return this.#setAlarm(Math.max(endMs, nextReportMs));
    this.#state = { record: null, answered: "" };
    await this.ctx.storage.deleteAll();
  }

  async #report(): Promise<boolean> {
    // The database keeps the larger of two totals: what is reported must not be forgotten.
    await (this.#usage.isStored ? this.#commits.settle() : this.#commits.commit());
    return this.#usage.report(this.env.KEYS, this.#config.databaseTimeoutMs);
  }

  /** Remembers the ban of a record until the database knows it. */
  #addBan(record: LimiterState | null): void {
    if (!record?.ban) return;
    const { untilMs, number } = record.ban;
    const beganMs = untilMs - banLengthMs(this.#config.bans, number);
    this.#bans.add({ beganMs, untilMs, number, resets: record.resets });
  }

  /** Reports a ban that is on the disk. If the database fails, the alarm tries again. */
  async #reportBans(): Promise<void> {
    const isReported = await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const retryMs = Date.now() + BAN_RETRY_MS;
    if (!isReported && (this.#alarmMs ?? 0) > retryMs) await this.#setAlarm(retryMs);
  }

  /** Resolves when everything that was decided until now is on the disk. */
  async #store(before: LimiterState | null, nowMs: number): Promise<void> {
    if (!isDurablyChanged(before, this.#state.record)) return this.#commits.settle() ?? undefined;
    const dueMs = nowMs + REPORT_EVERY_MS;
    if (this.#alarmMs === null || this.#alarmMs > dueMs) {
      this.#alarmMs = dueMs;
      void this.ctx.storage.setAlarm(dueMs);
    }
    return this.#commits.commit();
  }

  #write(): void {
    const { record, answered } = this.#state;
    const { keyId } = this.#usage;
    // Nothing is left to store if the alarm has removed everything in the meantime.
    if (keyId === null || record === null) return;
    const unreportedBans = this.#bans.toStored();
    this.ctx.storage.kv.put<StoredState>(STATE, {
      ...toStored(record),
      keyId,
      answered,
      usage: this.#usage.toStored(),
      ...(unreportedBans && { unreportedBans }),
    });
  }

  async #setAlarm(dueMs: number): Promise<void> {
    await this.ctx.storage.setAlarm(dueMs);
    this.#alarmMs = dueMs;
  }

  /** Logs what an operator may be asked about. */
  #tell(before: LimiterState | null, after: LimiterState | null, bans: number): void {
    const { keyId } = this.#usage;
    if (before !== null && after !== null && after.resets > before.resets)
      logEvent({ event: "limiter_reset", keyId });
    if (bans > 0 && after?.ban) {
      const { number, untilMs, loggedOnly } = after.ban;
      const event = loggedOnly ? "would_ban" : "banned";
      logEvent({ event, keyId, number, until: new Date(untilMs).toISOString() });
    }
  }
}

/** Whether anything but the wait has changed, or a policy that the next request brings again. */
function isDurablyChanged(before: LimiterState | null, after: LimiterState | null): boolean {
  if (before === null) return after !== null && (after.minute !== null || after.ban !== null);
  return before.minute !== after?.minute || before.day !== after.day || before.ban !== after.ban;
}
