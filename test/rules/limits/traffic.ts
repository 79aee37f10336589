export type Draw = () => number;

/** Draws numbers in [0, max) that are the same in every run (mulberry32). */
export function seededRandom(seed: number, max = 1): Draw {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return (((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32) * max;
  };
}
