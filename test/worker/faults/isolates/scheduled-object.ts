import type { Scheduler } from "fast-check";
import type { BanPolicy } from "../../../../src/worker/limits/bans.ts";
import { decideOnce, type ObjectState } from "../../../../src/worker/rate-limit/decide-once.ts";
import type {
  Decision,
  LimiterState,
  QuotaPolicy,
} from "../../../../src/worker/limits/decision.ts";
import { GroupCommit } from "../../../../src/worker/rate-limit/group-commit.ts";
import { newestToStore } from "../../../../src/worker/rate-limit/answered-requests.ts";
import { readObjectState, toStored } from "../../../../src/worker/rate-limit/stored-state.ts";

/** The outcome of one attempt to call the Durable Object. */
export type Fate =
  | "arrives"
  | "never arrives"
  | "answer is lost"
  | "breaks"
  | "overloaded"
  | "killed";

const lost = () => Object.assign(new Error("Network connection lost."), { retryable: true });
const overloaded = () => Object.assign(new Error("Overloaded."), { overloaded: true });

/**
 * The memory of the Durable Object between two restarts. It begins with the content of the disk.
 */
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
        written = structuredClone({ ...toStored(limiter), answered: newestToStore(answered) });
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
 * A simulated Durable Object of one key, with a slow disk. The scheduler determines when calls
 * arrive, when writes reach the disk, and when responses arrive.
 */
export class ScheduledObject {
  readonly scheduler: Scheduler;
  readonly #bans: BanPolicy;
  readonly #fates: Fate[];
  stored: unknown = undefined;
  /** The nonces of all requests that were ever admitted, even if the decision was not stored. */
  readonly admitted = new Set<string>();
  #life: Life;

  /** @param fates the outcomes of the first calls, in order. All later calls arrive. */
  constructor(scheduler: Scheduler, bans: BanPolicy, fates: readonly Fate[]) {
    this.scheduler = scheduler;
    this.#bans = bans;
    this.#fates = [...fates];
    this.#life = new Life(this);
  }

  /** The limiter state on disk, which survives a restart. */
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
    // At this point, the decision is made but not written to disk.
    if (fate === "killed") this.kill();
    await (decision.admitted ? life.commits.commit() : life.commits.settle());
    if (life.isOver) throw lost();
    await this.scheduler.schedule(Promise.resolve(), "answer");
    if (fate === "answer is lost") throw lost();
    if (fate === "breaks") throw new Error("Internal error.");
    return structuredClone(decision);
  }

  /** Restarts the Durable Object. Everything that is not on disk is lost. */
  kill(): void {
    this.#life.isOver = true;
    this.#life = new Life(this);
  }
}
