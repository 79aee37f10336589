import type { Scheduler } from "fast-check";
import type { BanPolicy } from "../../../../src/worker/limits/bans.ts";
import { decideOnce, type ObjectState } from "../../../../src/worker/rate-limit/decide-once.ts";
import type {
  Decision,
  LimiterState,
  QuotaPolicy,
} from "../../../../src/worker/limits/decision.ts";
import { GroupCommit } from "../../../../src/worker/rate-limit/group-commit.ts";
import { readObjectState, toStored } from "../../../../src/worker/rate-limit/stored-state.ts";

/** The outcome of one attempt to call the object. */
export type Fate =
  | "arrives"
  | "never arrives"
  | "answer is lost"
  | "breaks"
  | "overloaded"
  | "killed";

const lost = () => Object.assign(new Error("Network connection lost."), { retryable: true });
const overloaded = () => Object.assign(new Error("Overloaded."), { overloaded: true });

/** One life of the object in memory, which begins with the content of the disk. */
class Life {
  state: ObjectState;
  isOver = false;
  readonly commits: GroupCommit;

  constructor(disk: ScheduledObject) {
    this.state = readObjectState(disk.stored);
    let written: unknown = disk.stored;
    this.commits = new GroupCommit(
      () => {
        const { limiter, answered } = this.state;
        if (limiter === null) return;
        written = structuredClone({ ...toStored(limiter), answered });
      },
      async () => {
        const writing = written;
        await disk.scheduler.schedule(Promise.resolve(), "sync");
        if (!this.isOver) disk.stored = writing;
      },
    );
  }
}

/**
 * The Durable Object of one key, with a slow disk. The scheduler decides when calls arrive, writes
 * reach the disk and answers arrive.
 */
export class ScheduledObject {
  readonly scheduler: Scheduler;
  readonly #bans: BanPolicy;
  readonly #fates: Fate[];
  stored: unknown = undefined;
  /** The nonces of the requests that any life has admitted, stored or not. */
  readonly admitted = new Set<string>();
  #life: Life;

  /** @param fates the outcomes of the first attempts to call, in the order of the attempts. */
  constructor(scheduler: Scheduler, bans: BanPolicy, fates: readonly Fate[]) {
    this.scheduler = scheduler;
    this.#bans = bans;
    this.#fates = [...fates];
    this.#life = new Life(this);
  }

  /** The limiter state that survives. */
  get storedLimiter(): LimiterState | null {
    return readObjectState(this.stored).limiter;
  }

  async admit(
    policy: QuotaPolicy,
    agesMs: readonly number[],
    refusedElsewhere: number,
    nonce: string,
  ): Promise<Decision> {
    const fate = this.#fates.shift() ?? "arrives";
    await this.scheduler.schedule(Promise.resolve(), `call: ${fate}`);
    if (fate === "overloaded") throw overloaded();
    if (fate === "never arrives") throw lost();
    const life = this.#life;
    const nowMs = Date.now();
    const refusedElsewhereMs = agesMs.map((ageMs) => nowMs - ageMs);
    const request = { policy, nonce, refusedElsewhere, refusedElsewhereMs };
    const { state, decision } = decideOnce(life.state, request, this.#bans, nowMs);
    life.state = state;
    if (decision.admitted) this.admitted.add(nonce);
    // The decision is made, but not written.
    if (fate === "killed") this.kill();
    await (decision.admitted ? life.commits.commit() : life.commits.settle());
    if (life.isOver) throw lost();
    await this.scheduler.schedule(Promise.resolve(), "answer");
    if (fate === "answer is lost") throw lost();
    if (fate === "breaks") throw new Error("Internal error.");
    return structuredClone(decision);
  }

  /** Ends the object's life in memory. Everything that is not on the disk is lost. */
  kill(): void {
    this.#life.isOver = true;
    this.#life = new Life(this);
  }
}
