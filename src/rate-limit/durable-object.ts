import { DurableObject } from "cloudflare:workers";
import { type Config, parseConfig } from "../config.ts";
import { logEvent } from "../log.ts";
import type { Usage } from "../usage/day-usage.ts";
import { KeyUsage } from "../usage/key-usage.ts";
import { REPORT_EVERY_MS } from "../usage/report-interval.ts";
import { BanReports, type UnreportedBan } from "./ban-reports.ts";
import { banLengthMs } from "./bans.ts";
import type { Decision, LimiterRecord, Quota, QuotaPolicy } from "./decision.ts";
import { decide, peek, recordEndMs } from "./decision.ts";
import { keyIdOf } from "./limiter.ts";
import { readRecord, type StoredRecord, toStored } from "./stored-record.ts";

const STATE = "record";

/** One row for all that a limiter stores, so that an admission costs one row written. */
type StoredState = StoredRecord & {
  readonly usage?: Usage;
  readonly unreportedBans?: readonly UnreportedBan[];
};

/** After this time a ban is reported again that the database did not take. */
const BAN_RETRY_MS = 60_000;

/**
 * The limiter of one API key or client address. All that it knows is one record, decided on in one
 * synchronous step; the output gate holds each answer until the record is on disk. Beside the record
 * it counts what a key uses.
 *
 * While a record is stored an alarm is set: for the next report of the usage to the database, or for
 * the end of both, so that an idle object removes itself.
 */
export class RateLimiter extends DurableObject {
  readonly #config: Config;
  #record: LimiterRecord | null;
  /** `null` for a client address. */
  readonly #usage: KeyUsage | null;
  readonly #bans: BanReports | null;
  /** Unix time in milliseconds; `null` where none is set and while it is under way. */
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#config = parseConfig(env);
    const stored = ctx.storage.kv.get(STATE);
    this.#record = readRecord(stored);
    if (stored !== undefined && this.#record === null)
      logEvent({ event: "limiter_record_unreadable" });
    const keyId = keyIdOf(ctx.id.name);
    this.#usage = keyId === null ? null : new KeyUsage(keyId, Object(stored).usage);
    this.#bans = keyId === null ? null : new BanReports(keyId, Object(stored).unreportedBans);
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
   */
  admit(
    policy: QuotaPolicy,
    refusedAgesMs: readonly number[] = [],
    refusedElsewhere = refusedAgesMs.length,
  ): Decision {
    const nowMs = Date.now();
    const refusedElsewhereMs = refusedAgesMs.map((ageMs) => nowMs - ageMs);
    const before = this.#record;
    const { record, decision, strikes, bans } = decide(
      before,
      policy,
      this.#config.bans,
      nowMs,
      refusedElsewhereMs,
    );
    this.#record = record;
    const enforcedBans = record.ban?.loggedOnly ? 0 : bans;
    this.#usage?.count(decision, { refusedElsewhere, strikes, bans: enforcedBans });
    if (enforcedBans > 0) this.#addBan(record);
    if (decision.admitted || isDurablyChanged(before, record)) this.#save(record, nowMs);
    if (enforcedBans > 0) this.ctx.waitUntil(this.#reportBans());
    this.#tell(before, record, bans);
    return decision;
  }

  /** What is left, with nothing counted. */
  peek(policy: QuotaPolicy): Quota {
    return peek(this.#record, policy, this.#config.bans, Date.now());
  }

  /**
   * Reports what the key has used. Then removes all once it says nothing any more, and otherwise
   * looks again at its end.
   */
  override async alarm(): Promise<void> {
    this.#alarmMs = null;
    await this.#bans?.report(this.env.DB, this.#config.databaseTimeoutMs);
    const isUsageReported = await this.#report();
    const areBansReported = this.#bans?.isEmpty ?? true;
    // A request that came meanwhile has set another one.
    if (this.#alarmMs !== null) return;
    const nowMs = Date.now();
    const nextReportMs = nowMs + (areBansReported ? REPORT_EVERY_MS : BAN_RETRY_MS);
    if (!isUsageReported || !areBansReported) return this.#setAlarm(nextReportMs);
    const recordEnd = this.#record === null ? 0 : recordEndMs(this.#record, this.#config.bans);
    const endMs = Math.max(recordEnd, this.#usage?.endMs ?? 0);
    if (endMs > nowMs) {
      return this.#setAlarm(this.#usage === null ? endMs : Math.max(endMs, nextReportMs));
    }
    this.#record = null;
    await this.ctx.storage.deleteAll();
  }

  async #report(): Promise<boolean> {
    if (this.#usage === null) return true;
    // The database keeps the larger of two totals: what is reported must not be forgotten.
    if (!this.#usage.isStored && this.#record !== null) this.#store(this.#record);
    return this.#usage.report(this.env.DB, this.#config.databaseTimeoutMs);
  }

  /** Remembers the ban of a record until the database knows it. */
  #addBan({ ban, resets }: LimiterRecord): void {
    if (ban === null) return;
    const { untilMs, number } = ban;
    const beganMs = untilMs - banLengthMs(this.#config.bans, number);
    this.#bans?.add({ beganMs, untilMs, number, resets });
  }

  /** Reports a ban when it is on disk. If the database fails, the alarm tries again. */
  async #reportBans(): Promise<void> {
    await this.ctx.storage.sync();
    const isReported = await this.#bans?.report(this.env.DB, this.#config.databaseTimeoutMs);
    const retryMs = Date.now() + BAN_RETRY_MS;
    if (isReported === false && (this.#alarmMs ?? 0) > retryMs) await this.#setAlarm(retryMs);
  }

  #save(record: LimiterRecord, nowMs: number): void {
    this.#store(record);
    const dueMs =
      this.#usage === null ? recordEndMs(record, this.#config.bans) : nowMs + REPORT_EVERY_MS;
    if (this.#alarmMs === null || (this.#usage !== null && this.#alarmMs > dueMs)) {
      this.#alarmMs = dueMs;
      void this.ctx.storage.setAlarm(dueMs);
    }
  }

  #store(record: LimiterRecord): void {
    const usage = this.#usage?.toStored();
    const unreportedBans = this.#bans?.toStored();
    this.ctx.storage.kv.put<StoredState>(STATE, {
      ...toStored(record),
      ...(usage && { usage }),
      ...(unreportedBans && { unreportedBans }),
    });
  }

  async #setAlarm(dueMs: number): Promise<void> {
    await this.ctx.storage.setAlarm(dueMs);
    this.#alarmMs = dueMs;
  }

  /** Logs what an operator may be asked about. */
  #tell(before: LimiterRecord | null, after: LimiterRecord, bans: number): void {
    const keyId = this.#usage?.keyId;
    if (before !== null && after.resets > before.resets)
      logEvent({ event: "limiter_reset", keyId });
    if (bans > 0 && after.ban !== null) {
      const { number, untilMs, loggedOnly } = after.ban;
      const event = loggedOnly ? "would_ban" : "banned";
      logEvent({ event, keyId, number, until: new Date(untilMs).toISOString() });
    }
  }
}

/** Whether anything but the wait has changed, or a policy that the next request brings again. */
function isDurablyChanged(before: LimiterRecord | null, after: LimiterRecord): boolean {
  if (before === null) return after.ban !== null;
  return before.minute !== after.minute || before.day !== after.day || before.ban !== after.ban;
}
