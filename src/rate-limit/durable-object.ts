import { DurableObject } from "cloudflare:workers";
import { parseConfig } from "../config.ts";
import { logEvent } from "../log.ts";
import type { BanPolicy } from "./bans.ts";
import type { Decision, LimiterRecord, Quota, QuotaPolicy } from "./decision.ts";
import { decide, peek, recordEndMs } from "./decision.ts";
import { readRecord, type StoredRecord, toStored } from "./stored-record.ts";

const RECORD = "record";

/**
 * The limiter of one API key or client address. All that it knows is one record, decided on in one
 * synchronous step; the output gate holds each answer until the record is on disk.
 *
 * While a record is stored an alarm is set for its end, so that an idle object removes itself.
 */
export class RateLimiter extends DurableObject {
  readonly #bans: BanPolicy;
  #record: LimiterRecord | null;
  #alarmIsSet: boolean;

  constructor(ctx: DurableObjectState, env: Cloudflare.Env) {
    super(ctx, env);
    this.#bans = parseConfig(env).bans;
    const stored = ctx.storage.kv.get(RECORD);
    this.#record = readRecord(stored);
    this.#alarmIsSet = this.#record !== null;
    if (stored !== undefined && this.#record === null)
      logEvent({ event: "limiter_record_unreadable" });
  }

  /**
   * Counts one request if it is admitted, or its refusal.
   *
   * @param refusedAgesMs how many milliseconds ago requests were refused elsewhere by what this
   *   object had decided, the oldest first.
   */
  admit(policy: QuotaPolicy, refusedAgesMs: readonly number[] = []): Decision {
    const nowMs = Date.now();
    const refusedElsewhereMs = refusedAgesMs.map((ageMs) => nowMs - ageMs);
    const { record, decision } = decide(
      this.#record,
      policy,
      this.#bans,
      nowMs,
      refusedElsewhereMs,
    );
    const before = this.#record;
    this.#record = record;
    if (decision.admitted || isDurablyChanged(before, record)) this.#save(record);
    return decision;
  }

  /** What is left, with nothing counted. */
  peek(policy: QuotaPolicy): Quota {
    return peek(this.#record, policy, this.#bans, Date.now());
  }

  /** Removes the record once it says nothing any more, and otherwise looks again at its end. */
  override async alarm(): Promise<void> {
    const endMs = this.#record === null ? 0 : recordEndMs(this.#record, this.#bans);
    if (endMs > Date.now()) {
      await this.ctx.storage.setAlarm(endMs);
      return;
    }
    this.#record = null;
    this.#alarmIsSet = false;
    await this.ctx.storage.deleteAll();
  }

  #save(record: LimiterRecord): void {
    this.ctx.storage.kv.put<StoredRecord>(RECORD, toStored(record));
    if (this.#alarmIsSet) return;
    this.#alarmIsSet = true;
    void this.ctx.storage.setAlarm(recordEndMs(record, this.#bans));
  }
}

/** Whether anything but the wait has changed, or a policy that the next request brings again. */
function isDurablyChanged(before: LimiterRecord | null, after: LimiterRecord): boolean {
  if (before === null) return after.ban !== null;
  return before.minute !== after.minute || before.day !== after.day || before.ban !== after.ban;
}
