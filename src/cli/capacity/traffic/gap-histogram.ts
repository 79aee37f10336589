/** Buckets for each doubling of the gap. */
const BUCKETS_PER_OCTAVE = 4;

/** How often requests follow one another at which distance, in buckets that grow with it. */
export class GapHistogram {
  /** By the bucket's number: how many gaps, weighed, fell into it. */
  readonly #weights = new Map<number, number>();
  #total = 0;

  /** @param weight what each of the gaps counts for. */
  add(gapsMs: readonly number[], weight: number): void {
    for (const gapMs of gapsMs) {
      const bucket = Math.round(Math.log2(Math.max(1, gapMs)) * BUCKETS_PER_OCTAVE);
      this.#weights.set(bucket, (this.#weights.get(bucket) ?? 0) + weight);
      this.#total += weight;
    }
  }

  /** The sum of all weights. */
  get total(): number {
    return this.#total;
  }

  /** The sum of the weights of gaps in which none of `perSecond` independent events a second falls. */
  withoutEvent(perSecond: number): number {
    let sum = 0;
    for (const [bucket, weight] of this.#weights) {
      const gapSeconds = 2 ** (bucket / BUCKETS_PER_OCTAVE) / 1_000;
      sum += weight * Math.exp(-perSecond * gapSeconds);
    }
    return sum;
  }
}
