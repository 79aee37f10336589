import { formatNumber } from "../terminal-text.ts";

/** The time between two lines. A shorter task prints none. */
const LINE_EVERY_MS = 10_000;

interface Task {
  /** For example `Reading`. */
  readonly doing: string;
  /** The unit in which progress is shown; left out if the progress cannot be measured. */
  readonly unit?: "MB" | "orders";
  /** The final number of orders, or of bytes if `unit` is `MB`; left out if unknown. */
  readonly total?: number | undefined;
}

/** Prints a line about a task on stderr every ten seconds, until disposed. */
export function startProgress({ doing, unit, total }: Task) {
  const stream = process.stderr;
  const startedMs = Date.now();
  let value = 0;
  const amount = (count: number) =>
    unit === "MB" ? (count / 1e6).toFixed(1) : formatNumber(count);
  const timer = setInterval(() => {
    const seconds = Math.round((Date.now() - startedMs) / 1_000);
    const of = total === undefined ? "" : ` of ${amount(total)}`;
    const counted = unit === undefined ? "" : ` ${amount(value)}${of} ${unit},`;
    stream.write(`${doing}:${counted} ${seconds} s\n`);
  }, LINE_EVERY_MS);
  timer.unref();
  return {
    advance: (by: number) => void (value += by),
    [Symbol.dispose]: () => clearInterval(timer),
  };
}

/** Yields the bytes unchanged, and shows on stderr how many have been read. */
export async function* countBytes(
  bytes: AsyncIterable<Uint8Array>,
  total: number | undefined,
): AsyncGenerator<Uint8Array> {
  using progress = startProgress({ doing: "Reading", unit: "MB", total });
  for await (const part of bytes) {
    progress.advance(part.length);
    yield part;
  }
}
