import { DurableObject } from "cloudflare:workers";
import { type Config, parseConfig } from "../config.ts";
import { banLengthMs } from "../limits/bans.ts";
import {
  type Decision,
  type LimiterState,
  type QuotaPolicy,
  stateEndMs,
} from "../limits/decision.ts";
import { logEvent } from "../log.ts";
import { REPORT_EVERY_MS } from "../usage/day-usage.ts";
import { KeyUsage } from "../usage/key-usage.ts";
import { newestToStore } from "./answered-requests.ts";
import { BanReports } from "./ban-reports.ts";
import { decideOnce, mustStore, type ObjectState } from "./decide-once.ts";
import { GroupCommit } from "./group-commit.ts";
import { keyIdOf } from "./limiter.ts";
import { readKeyId, readObjectState, type StoredState, toStored } from "./stored-state.ts";

/**
 * The storage key of the only row that a Durable Object stores. All data is in this row, so that a
 * commit never writes several rows.
 */
const STATE = "record";

/** The time after which a failed report of a ban is retried. */
const BAN_RETRY_MS = 60_000;

/**
 * The limiter of one API key. It makes each decision from its state in memory, in one synchronous
 * step. An admission is returned only after it is on disk. So the limits are exact, but each
 * admission takes the time of a write. Requests that are decided during a write share the next
 * write.
 *
 * A Durable Object that stores anything has an alarm for the next report to the database. After the
 * reports, the alarm is set to the time at which all windows, bans and days of usage have ended. At
 * that time, an idle Durable Object deletes its storage.
 */
export class RateLimiter extends DurableObject {
  readonly #config: Config;
  #state: ObjectState;
  readonly #usage: KeyUsage;
  readonly #bans: BanReports;
  readonly #commits: GroupCommit;
  /**
   * Unix time in milliseconds of the next alarm; `null` if no alarm is set and while the alarm
   * runs.
   */
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#config = parseConfig(env);
    const stored = ctx.storage.kv.get(STATE);
    this.#state = readObjectState(stored);
    if (stored !== undefined && this.#state.limiter === null)
      logEvent({ event: "limiter_record_unreadable" });
    // A Durable Object that was opened by its id has no name. Then read the key's id from storage.
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
   * Decides on one request, and counts its admission or refusal.
   *
   * @param refusedAgesMs ages in milliseconds of the requests that the isolate refused from memory
   *   and that may be strikes, the oldest first.
   * @param refusedElsewhere the number of all requests that the isolate refused from memory since
   *   its last report.
   * @param nonce identifies the request. The isolate sends the same nonce in every attempt, so that
   *   the request is counted only once.
   * @throws {Error} if this Durable Object does not belong to a key, or if the decision cannot be
   *   stored.
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

  /** Responds to a health check of the service. Stores nothing. */
  ping(): void {}

  /**
   * Reports the bans and the usage to the database. If all windows, bans and days of usage have
   * ended and are reported, deletes the storage. Otherwise sets the next alarm.
   */
  override async alarm(): Promise<void> {
    this.#alarmMs = null;
    await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const isUsageReported = await this.#reportUsage();
    const areBansReported = this.#bans.isEmpty;
    // A request that arrived during the reports has set another alarm.
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
    // Store the usage before reporting it. If a restart lost reported counts, the database would
    // ignore new counts until they exceed the reported totals.
    await (this.#usage.isStored ? this.#commits.settle() : this.#commits.commit());
    return this.#usage.report(this.env.KEYS, this.#config.databaseTimeoutMs);
  }

  /** Adds the ban of this limiter state to the bans to report. */
  #addBan(limiter: LimiterState | null): void {
    if (!limiter?.ban) return;
    const { untilMs, number } = limiter.ban;
    const beganMs = untilMs - banLengthMs(this.#config.bans, number);
    this.#bans.add({ beganMs, untilMs, number, resets: limiter.resets });
  }

  /** Reports bans that are already on disk. If the database fails, the alarm retries. */
  async #reportBans(): Promise<void> {
    const isReported = await this.#bans.report(this.env.KEYS, this.#config.databaseTimeoutMs);
    const retryMs = Date.now() + BAN_RETRY_MS;
    if (!isReported && (this.#alarmMs ?? 0) > retryMs) await this.#setAlarm(retryMs);
  }

  /** Stores the state if `mustStore` returns true. Resolves when all commits so far are on disk. */
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
    // The alarm may have deleted everything between the decision and this write.
    if (keyId === null || limiter === null) return;
    const unreportedBans = this.#bans.toStored();
    this.ctx.storage.kv.put<StoredState>(STATE, {
      ...toStored(limiter),
      keyId,
      answered: newestToStore(answered),
      usage: this.#usage.toStored(),
      ...(unreportedBans && { unreportedBans }),
    });
  }

  async #setAlarm(dueMs: number): Promise<void> {
    await this.ctx.storage.setAlarm(dueMs);
    this.#alarmMs = dueMs;
  }

  /** Logs resets and bans, because customers ask operators about these events. */
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
