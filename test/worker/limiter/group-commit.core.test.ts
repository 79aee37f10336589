import fc from "fast-check";
import { expect, test } from "vitest";
import { GroupCommit } from "../../../src/worker/limiter/group-commit.ts";

const anyStep = fc.record({
  /**
   * False for a request that changes nothing and only waits until earlier decisions are on disk.
   */
  changes: fc.boolean(),
  /** The outcome of the write to disk, if this step begins one. */
  fate: fc.oneof(
    { weight: 3, arbitrary: fc.constant("written" as const) },
    fc.constantFrom("put fails" as const, "sync fails" as const),
  ),
});

/**
 * A counter in memory with a simulated disk. The scheduler delays writes, and `fate` makes them
 * fail.
 */
class Counter {
  count = 0;
  onDisk = 0;
  syncs = 0;
  mostSyncs = 0;
  writes = 0;
  fate: "written" | "put fails" | "sync fails" = "written";
  readonly commits: GroupCommit;

  constructor(scheduler: fc.Scheduler) {
    let written = 0;
    const write = () => {
      this.writes += 1;
      if (this.fate === "put fails") throw new Error("put");
      written = this.count;
    };
    const sync = async () => {
      this.syncs += 1;
      this.mostSyncs = Math.max(this.mostSyncs, this.syncs);
      const held = written;
      const isFailing = this.fate === "sync fails";
      await scheduler.schedule(Promise.resolve(), "sync");
      this.syncs -= 1;
      if (isFailing) throw new Error("sync");
      this.onDisk = held;
    };
    this.commits = new GroupCommit(write, sync);
  }

  /**
   * Sends a request. Returns whether its decision was stored, and expects the decision to be on
   * disk if so.
   */
  async request(changes: boolean): Promise<boolean> {
    if (changes) this.count += 1;
    const decidedOn = this.count;
    try {
      await (changes ? this.commits.commit() : this.commits.settle());
    } catch {
      return false;
    }
    expect(this.onDisk).toBeGreaterThanOrEqual(decidedOn);
    return true;
  }
}

test("no decision is returned before its state is on disk", async () => {
  const seen = { answered: 0, failed: 0 };
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(anyStep, { minLength: 1, maxLength: 20 }),
      async (scheduler, steps) => {
        const counter = new Counter(scheduler);
        expect(counter.commits.settle()).toBeNull();
        const requests: Promise<boolean>[] = [];
        const { task } = scheduler.scheduleSequence(
          steps.map(({ changes, fate }, index) => ({
            label: `${index}`,
            builder: async () => {
              counter.fate = fate;
              requests.push(counter.request(changes));
            },
          })),
        );
        await scheduler.waitIdle();
        await task;
        const answered = await Promise.all(requests);
        expect(counter.mostSyncs).toBeLessThanOrEqual(1);
        expect(counter.writes).toBeLessThanOrEqual(steps.length);
        counter.fate = "written";
        const last = counter.request(false);
        await scheduler.waitIdle();
        expect(await last).toBe(true);
        expect(counter.onDisk).toBe(counter.count);
        expect(counter.commits.settle()).toBeNull();
        seen.answered += answered.filter((isAnswered) => isAnswered).length;
        seen.failed += answered.filter((isAnswered) => !isAnswered).length;
      },
    ),
    { numRuns: 200 },
  );
  expect(Math.min(seen.answered, seen.failed)).toBeGreaterThan(50);
});
