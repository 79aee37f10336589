import { DurableObject } from "cloudflare:workers";
import { type Config, parseConfig } from "../config.ts";
import { banLengthMs } from "../limits/bans.ts";
import {
  type Decision,
  type LimiterState,
  type QuotaPolicy,
  stateEndMs,
} from "../limits/decision.ts";
import { WINDOW_NAMES, type WindowName } from "../limits/windows.ts";
import { logEvent } from "../log.ts";
import { REPORT_EVERY_MS } from "../usage/day-usage.ts";
import { KeyUsage } from "../usage/key-usage.ts";
import { BanReports } from "./ban-reports.ts";
import { decideOnce, type ObjectState } from "./decide-once.ts";
import { GroupCommit } from "./group-commit.ts";
import { keyIdOf } from "./limiter.ts";
import { readKeyId, readObjectState, type StoredState, toStored } from "./stored-state.ts";

/** The key of the one row that an object stores, so that a commit writes one row. */
const STATE = "record";

/** The time after which the object repeats a ban report that failed. */
const BAN_RETRY_MS = 60_000;

/**
 * The limiter of one API key. It decides in one synchronous step on its state in memory. Requests
 * that are decided while a write is on its way share the next write. No answer leaves before its
 * decision is on the disk: that costs a write's time, and makes the limits exact.
 *
 * An object that stores anything has an alarm: for the next report of the usage to the database, or
 * for the time at which everything stored is over. Then an idle object removes itself.
 */
export class RateLimiter extends DurableObject {
  readonly #config: Config;
  #state: ObjectState;
  readonly #usage: KeyUsage;
  readonly #bans: BanReports;
  readonly #commits: GroupCommit;
  /** Unix time in milliseconds; `null` if no alarm is set, and while the alarm runs. */
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#config = parseConfig(env);
    const stored = ctx.storage.kv.get(STATE);
    this.#state = readObjectState(stored);
    if (stored !== undefined && this.#state.limiter === null)
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
   * @param refusedAgesMs ages in milliseconds of requests that the isolate refused from memory and
   *   that may be strikes, the oldest first.
   * @param refusedElsewhere the number of all requests that the isolate refused since its last report.
   * @param nonce is the same each time that a request is sent, so that the object counts it once.
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
    const before = this.#state.limiter;
    const { state, decision, consequences } = decideOnce(
      this.#state,
      { policy, nonce, refusedElsewhere, refusedElsewhereMs },
      this.#config.bans,
      nowMs,
    );
    this.#state = state;
    const bans = consequences?.bans ?? 0;
    const enforcedBans = state.limiter?.ban?.loggedOnly ? 0 : bans;
    if (consequences !== null) this.#usage.count(decision, { ...consequences, bans: enforcedBans });
    if (enforcedBans > 0) this.#addBan(state.limiter);
    this.#logChanges(before, state.limiter, bans);
    await this.#store(before, nowMs);
    if (enforcedBans > 0) this.ctx.waitUntil(this.#reportBans());
    return decision;
  }

  /** Answers a probe of the service's health. Stores nothing. */
  ping(): void {}

  /**
   * Reports the bans and the usage to the database. Removes everything stored once it is over, and
   * otherwise sets the next alarm.
   */
  override async alarm(): Promise<void> {
    this.#alarmMs = null;
    await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const isUsageReported = await this.#reportUsage();
    const areBansReported = this.#bans.isEmpty;
    // A request that came meanwhile has set another alarm.
    if (this.#alarmMs !== null) return;
    const nowMs = Date.now();
    const nextReportMs = nowMs + (areBansReported ? REPORT_EVERY_MS : BAN_RETRY_MS);
    if (!isUsageReported || !areBansReported) return this.#setAlarm(nextReportMs);
    const { limiter } = this.#state;
    const limiterEndMs = limiter === null ? 0 : stateEndMs(limiter, this.#config.bans);
    const endMs = Math.max(limiterEndMs, this.#usage.endMs);
    if (endMs > nowMs) return this.#setAlarm(Math.max(endMs, nextReportMs));
    this.#state = { limiter: null, answered: "" };
    await this.ctx.storage.deleteAll();
  }

  async #reportUsage(): Promise<boolean> {
    // The database never lowers a total, so a restart must not forget anything that was reported.
    await (this.#usage.isStored ? this.#commits.settle() : this.#commits.commit());
    return this.#usage.report(this.env.KEYS, this.#config.databaseTimeoutMs);
  }

  /** Keeps the ban of this limiter state until the database knows it. */
  #addBan(limiter: LimiterState | null): void {
    if (!limiter?.ban) return;
    const { untilMs, number } = limiter.ban;
    const beganMs = untilMs - banLengthMs(this.#config.bans, number);
    this.#bans.add({ beganMs, untilMs, number, resets: limiter.resets });
  }

  /** Reports a ban that is on the disk. If the database fails, the alarm tries again. */
  async #reportBans(): Promise<void> {
    const isReported = await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const retryMs = Date.now() + BAN_RETRY_MS;
    if (!isReported && (this.#alarmMs ?? 0) > retryMs) await this.#setAlarm(retryMs);
  }

  /** Resolves when every decision until now is on the disk. */
  async #store(before: LimiterState | null, nowMs: number): Promise<void> {
    if (!mustStore(before, this.#state.limiter)) return this.#commits.settle() ?? undefined;
    const dueMs = nowMs + REPORT_EVERY_MS;
    if (this.#alarmMs === null || this.#alarmMs > dueMs) {
      this.#alarmMs = dueMs;
      void this.ctx.storage.setAlarm(dueMs);
    }
    return this.#commits.commit();
  }

  #write(): void {
    const { limiter, answered } = this.#state;
    const { keyId } = this.#usage;
    // The alarm may have removed everything in the meantime.
    if (keyId === null || limiter === null) return;
    const unreportedBans = this.#bans.toStored();
    this.ctx.storage.kv.put<StoredState>(STATE, {
      ...toStored(limiter),
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

  /** Logs resets and bans, because customers ask operators about them. */
  #logChanges(before: LimiterState | null, after: LimiterState | null, bans: number): void {
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

/**
 * Returns whether a window or the ban has changed. The wait need not survive a restart, and the next
 * request brings the policy again.
 */
function mustStore(before: LimiterState | null, after: LimiterState | null): boolean {
  const hasChanged = (name: "ban" | WindowName) =>
    (before?.[name] ?? null) !== (after?.[name] ?? null);
  return hasChanged("ban") || WINDOW_NAMES.some(hasChanged);
}
