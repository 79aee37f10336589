import type { Random } from "./random.ts";

/** How often the isolates among which a key's requests are spread look it up. Times in milliseconds. */
export class KeyLookUps {
  count = 0;
  readonly #freshMs: number;
  readonly #random: Random;
  /** When each isolate did so last. */
  readonly #lookedUpMs: Float64Array;

  constructor(isolates: number, freshMs: number, random: Random) {
    this.#freshMs = freshMs;
    this.#random = random;
    this.#lookedUpMs = new Float64Array(isolates).fill(Number.NEGATIVE_INFINITY);
  }

  /** A request comes to any of the isolates. */
  request(nowMs: number): void {
    const isolate = Math.floor(this.#random.uniform() * this.#lookedUpMs.length);
    if (nowMs - (this.#lookedUpMs[isolate] ?? 0) < this.#freshMs) return;
    this.#lookedUpMs[isolate] = nowMs;
    this.count += 1;
  }

  /** Requests come without a pause: every isolate looks up as often as it may. */
  requests(fromMs: number, toMs: number): void {
    this.count += this.#lookedUpMs.length * Math.ceil((toMs - fromMs) / this.#freshMs);
    this.#lookedUpMs.fill(toMs);
  }
}
