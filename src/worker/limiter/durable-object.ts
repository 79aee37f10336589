import { DurableObject } from "cloudflare:workers";
import { type Config, parseConfig } from "../../rules/config.ts";
import { DatabaseQueries } from "../db/availability.ts";
import { type Decision, decide, peek, type Quota } from "../../rules/limits/decision.ts";
import {
  type LimiterState,
  type QuotaPolicy,
  stateAt,
  stateEndMs,
} from "../../rules/limits/limiter-state.ts";
import { newlyNearLimit } from "../../rules/limits/low-quota.ts";
import type { WaitReport } from "../../rules/limits/strikes.ts";
import { WINDOW_NAMES, type WindowName } from "../../rules/limits/windows.ts";
import { logEvent } from "../log.ts";
import { REPORT_EVERY_MS } from "../usage/day-usage.ts";
import { KeyReports } from "../usage/key-reports.ts";
import { GroupCommit } from "./group-commit.ts";
import { type CallDetails, keyIdOf, type ObjectDecision } from "./object-call.ts";
import { RecentCalls } from "./recent-calls.ts";
import { readState, type StoredState } from "./stored-state.ts";

/** The storage key of the only row. A single row makes each commit a single write. */
const STATE = "record";

const RETRY_REPORT_MS = 60_000;

/** How long a key reads no replica after a cancellation: much longer than a replica lags behind. */
const CANCELLATION_MS = 600_000;

/**
 * The limiter of one API key. Decides in one synchronous step, from its state in memory. Returns an
 * admission only after it is on disk. Calls that are decided during a write share the next write.
 *
 * A Durable Object that stores anything has an alarm for its reports to the database: the first
 * write of a day is reported within a minute, later ones within an hour. If the alarm is overdue, the
 * next write causes the report. After a report without news,
 * the alarm is set to a time when everything stored has ended: windows, bans, days of usage, the last
 * cancellation. If nothing new is stored until then, the Durable Object deletes its storage.
 */
export class RateLimiter extends DurableObject {
  readonly #config: Config;
  /** `null` if this Durable Object limits no key. */
  readonly #keyId: string | null;
  #limiter: LimiterState | null;
  /** Unix time in milliseconds of the admission of the last cancellation; 0 if there is none. */
  #cancelledMs: number;
  readonly #reports: KeyReports;
  readonly #commits: GroupCommit;
  readonly #decided: RecentCalls<readonly ObjectDecision[]>;
  /** Unix time in milliseconds of the next alarm; `null` if none is set. */
  #alarmMs: number | null = null;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#config = parseConfig(env);
    // An isolate sends a call again within its timeout; the object may answer as much later.
    this.#decided = new RecentCalls(2 * this.#config.limiterTimeoutMs);
    const stored = readState(ctx.storage.kv.get(STATE));
    const { limiter, keyId, usage, unreportedBans } = stored;
    this.#limiter = limiter;
    // A row by an older version does not say when the key last cancelled an order.
    this.#cancelledMs = stored.cancelledMs ?? (limiter === null ? 0 : Date.now());
    // A Durable Object that was opened by its id has no name.
    this.#keyId = keyIdOf(ctx.id.name) ?? keyId;
    const queries = new DatabaseQueries("keys", this.#config.databaseTimeoutMs);
    this.#reports = new KeyReports(this.#keyId ?? "", usage, unreportedBans, queries);
    this.#commits = new GroupCommit(
      () => this.#write(),
      () => ctx.storage.sync(),
    );
    void ctx.blockConcurrencyWhile(async () => {
      this.#alarmMs = await ctx.storage.getAlarm();
    });
  }

  /**
   * Decides on the requests of one call, and counts their admissions and refusals.
   *
   * @param refusals the number of requests that the isolate refused from memory since its last call.
   * @param nonce the same in every attempt of a call, so that its requests are counted only once.
   * @returns one decision for each request.
   * @throws {Error} if no key belongs to this Durable Object, or a decision cannot be stored.
   */
  async admit(
    policy: QuotaPolicy,
    refusals: number,
    nonce: string,
    { requests, wait, cancels }: CallDetails,
  ): Promise<readonly ObjectDecision[]> {
    if (this.#keyId === null) throw new Error("This object limits no API key.");
    let decisions = this.#decided.get(nonce);
    if (decisions !== undefined) await this.#commits.settle();
    else {
      const before = this.#limiter;
      const { unreportedBans } = this.#reports;
      const nowMs = Date.now();
      this.#cancelledMs = cancels ? nowMs : Math.min(this.#cancelledMs, nowMs);
      const mayReadReplica = nowMs - this.#cancelledMs >= CANCELLATION_MS;
      const first = this.#decide(policy, nowMs, refusals, wait);
      const others = Array.from({ length: requests - 1 }, () => this.#decide(policy, nowMs));
      decisions = [first, ...others].map((decision) => ({ ...decision, mayReadReplica }));
      this.#decided.add(nonce, decisions, nowMs);
      const hasBanned = this.#reports.unreportedBans > unreportedBans;
      // The alarm reports the ban if the report below fails or a restart prevents this report.
      if (hasBanned) this.#wakeLater(RETRY_REPORT_MS);
      await (mustStore(before, this.#limiter) ? this.#commit() : this.#commits.settle());
      if (hasBanned) this.ctx.waitUntil(this.#report());
    }
    return decisions;
  }

  /** Returns the quota, from memory. Counts and stores nothing. */
  peek(policy: QuotaPolicy): Quota {
    return peek(this.#limiter, policy, this.#config.bans, Date.now());
  }

  /** Responds to a health check of the service. Stores nothing. */
  ping(): void {}

  override async alarm(): Promise<void> {
    this.#alarmMs = null;
    this.#limiter = this.#limiter && stateAt(this.#limiter, Date.now());
    const { hasNews } = this.#reports;
    if (!(await this.#report())) return this.#wakeBy(Date.now() + RETRY_REPORT_MS);
    const nowMs = Date.now();
    const limiterEndMs = this.#limiter === null ? 0 : stateEndMs(this.#limiter, this.#config.bans);
    const cancellationEndMs = Math.min(this.#cancelledMs, nowMs) + CANCELLATION_MS;
    const endMs = Math.max(limiterEndMs, this.#reports.endMs, cancellationEndMs);
    const nextMs = nowMs + REPORT_EVERY_MS;
    // After news, more will probably come: an alarm that is set anew costs a row.
    if (endMs > nowMs) return this.#wakeBy(hasNews ? nextMs : Math.max(endMs, nextMs));
    this.#limiter = null;
    await this.ctx.storage.deleteAll();
  }

  #decide(
    policy: QuotaPolicy,
    nowMs: number,
    refusedElsewhere = 0,
    wait: WaitReport | null = null,
  ): Decision {
    const before = this.#limiter;
    const decided = decide(before, policy, this.#config.bans, nowMs, wait);
    const { state, decision, strikes, newBan } = decided;
    this.#limiter = state;
    const bans = newBan === null || newBan.loggedOnly ? 0 : 1;
    this.#reports.count(decision, { refused: refusedElsewhere, strikes, bans });
    // Resets and bans are logged, because customers ask operators about them.
    if (before !== null && state.resets > before.resets) {
      logEvent({ event: "limiter_reset", keyId: this.#keyId });
    }
    if (newBan !== null) {
      const { loggedOnly, ...ban } = newBan;
      const until = new Date(ban.untilMs).toISOString();
      const event = loggedOnly ? "would_ban" : "banned";
      logEvent({ event, keyId: this.#keyId, number: ban.number, until });
      if (!loggedOnly) this.#reports.addBan({ ...ban, resets: state.resets });
    }
    for (const low of newlyNearLimit(before, decision)) {
      logEvent({ event: "quota_low", keyId: this.#keyId, ...low });
    }
    return decision;
  }

  async #report(): Promise<boolean> {
    // Store counts before reporting them, and report none that arrive meanwhile. If a restart lost
    // reported counts, the database would ignore new counts until they exceed the reported totals.
    const unreported = this.#reports.unreportedAt(Date.now());
    await (this.#reports.isStored ? this.#commits.settle() : this.#commits.commit());
    return this.#reports.report(this.env.KEYS, unreported);
  }

  #commit(): Promise<void> {
    const isDue = this.#alarmMs !== null && this.#alarmMs <= Date.now();
    if (!isDue) this.#wakeLater(this.#reports.nextReportMs);
    const committed = this.#commits.commit();
    // The platform can be late with an alarm, or lose it.
    const wakeAgain = () => this.#wakeLater(RETRY_REPORT_MS);
    if (isDue) this.ctx.waitUntil(this.alarm().catch(wakeAgain));
    return committed;
  }

  #write(): void {
    // The alarm may have deleted everything between the decision and this write.
    if (this.#keyId === null || this.#limiter === null) return;
    const { wait: _wait, ...limiter } = this.#limiter;
    this.ctx.storage.kv.put<StoredState>(STATE, {
      ...limiter,
      cancelledMs: this.#cancelledMs,
      keyId: this.#keyId,
      ...this.#reports.toStored(),
    });
  }

  /** Sets the alarm to this Unix time in milliseconds, unless it is set to an earlier time. */
  async #wakeBy(dueMs: number): Promise<void> {
    if (this.#alarmMs !== null && this.#alarmMs <= dueMs) return;
    this.#alarmMs = dueMs;
    try {
      await this.ctx.storage.setAlarm(dueMs);
    } catch (error) {
      this.#alarmMs = null;
      throw error;
    }
  }

  /** Like `wakeBy`, for a request, which does not fail with its alarm: the next write sets it. */
  #wakeLater(milliseconds: number): void {
    this.#wakeBy(Date.now() + milliseconds).catch((error: unknown) =>
      logEvent({ event: "alarm_not_set", keyId: this.#keyId, error }),
    );
  }
}

/**
 * Returns whether a change must be stored. The wait need not survive a restart. The revision must
 * survive, because the limiter could otherwise accept outdated limits.
 */
function mustStore(before: LimiterState | null, after: LimiterState | null): boolean {
  const hasChanged = (name: "ban" | "revision" | WindowName) =>
    (before?.[name] ?? null) !== (after?.[name] ?? null);
  return hasChanged("ban") || hasChanged("revision") || WINDOW_NAMES.some(hasChanged);
}
