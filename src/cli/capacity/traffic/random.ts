/** Numbers that are the same on every run with the same seed. */
export class Random {
  #state: number;

  /** @param seed a whole number. */
  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** Any number in [0, 1), each as likely (mulberry32). */
  uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let bits = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  }

  chance(probability: number): boolean {
    return this.uniform() < probability;
  }

  /** The time to the next of events that come independently, `mean` apart. */
  exponential(mean: number): number {
    return -mean * Math.log(1 - this.uniform());
  }

  /** Half of the numbers are below `median`; the larger `sigma`, the further they lie apart. */
  logNormal(median: number, sigma: number): number {
    const radius = Math.sqrt(-2 * Math.log(1 - this.uniform()));
    return median * Math.exp(sigma * radius * Math.cos(2 * Math.PI * this.uniform()));
  }

  /** One of the names, as often as its share says. */
  pick<Name extends string>(shares: Readonly<Record<Name, number>>): Name {
    const entries = Object.entries(shares) as [Name, number][];
    let left = this.uniform() * entries.reduce((sum, [, share]) => sum + share, 0);
    const picked = entries.find(([, share]) => (left -= share) < 0) ?? entries.at(-1);
    if (picked === undefined) throw new Error("There is nothing to pick from.");
    return picked[0];
  }
}
