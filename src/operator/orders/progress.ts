import { SingleBar } from "cli-progress";
import { formatNumber } from "../terminal-text.ts";

/**
 * The time between lines that show progress if stderr is not a terminal. A task that takes less
 * time prints no line.
 */
const LINE_EVERY_MS = 10_000;

/** A task whose progress is shown. */
export interface Task {
  /** What the task does, for example `Reading`. */
  readonly doing: string;
  /** The unit in which progress is shown; left out if the progress cannot be measured. */
  readonly unit?: "MB" | "orders";
  /** The final number of orders, or of bytes if `unit` is `MB`; left out if unknown. */
  readonly total?: number | undefined;
}

interface Progress extends Disposable {
  advance(by: number): void;
}

type Terminal = NodeJS.WritableStream & { readonly isTTY?: boolean };

/**
 * Shows the progress of a task on stderr until the returned object is disposed. Shows a bar if
 * stderr is a terminal, and otherwise prints a line every ten seconds.
 */
export function startProgress(task: Task, stream: Terminal = process.stderr): Progress {
  return stream.isTTY === true ? showBar(task, stream) : writeLines(task, stream);
}

/** Yields the given bytes unchanged, and shows on stderr how many of them have been read. */
export async function* countBytes(
  bytes: AsyncIterable<Uint8Array>,
  totalBytes: number | undefined,
): AsyncGenerator<Uint8Array> {
  using progress = startProgress({ doing: "Reading", unit: "MB", total: totalBytes });
  for await (const part of bytes) {
    progress.advance(part.length);
    yield part;
  }
}

function showBar(task: Task, stream: Terminal): Progress {
  const { doing, unit, total } = task;
  if (unit === undefined) {
    stream.write(`${doing} ...\n`);
    return { advance: () => {}, [Symbol.dispose]: () => {} };
  }
  const bar = new SingleBar({
    stream,
    format: (options, { value, progress: share, eta, startTime }) => {
      const quantity = formatQuantity(value, unit);
      const seconds = Math.round((Date.now() - startTime) / 1_000);
      if (total === undefined) return `${doing}  ${quantity} ${unit}  ${formatSeconds(seconds)}`;
      const size = options.barsize ?? 0;
      const done = Math.round(share * size);
      const bars = `${"=".repeat(done)}${"-".repeat(size - done)}`;
      const counted = `${Math.floor(share * 100)}%  ${quantity} of ${formatQuantity(total, unit)} ${unit}`;
      // The remaining time is unknown before the first progress, and is not shown at the end.
      const isKnown = Number.isFinite(eta) && eta > 0 && value > 0;
      return `${doing} [${bars}] ${counted}${isKnown ? `  ${formatSeconds(eta)} left` : ""}`;
    },
    barsize: 20,
    hideCursor: true,
  });
  bar.start(total ?? 0, 0);
  return { advance: (by) => bar.increment(by), [Symbol.dispose]: () => bar.stop() };
}

function writeLines({ doing, unit, total }: Task, stream: Terminal): Progress {
  const startedMs = Date.now();
  let value = 0;
  const timer = setInterval(() => {
    const seconds = `${Math.round((Date.now() - startedMs) / 1_000)} s`;
    const of =
      total === undefined || unit === undefined ? "" : ` of ${formatQuantity(total, unit)}`;
    const counted = unit === undefined ? "" : ` ${formatQuantity(value, unit)}${of} ${unit},`;
    stream.write(`${doing}:${counted} ${seconds}\n`);
  }, LINE_EVERY_MS);
  timer.unref();
  return { advance: (by) => void (value += by), [Symbol.dispose]: () => clearInterval(timer) };
}

function formatQuantity(value: number, unit: "MB" | "orders"): string {
  return unit === "MB" ? (value / 1e6).toFixed(1) : formatNumber(value);
}

/** Formats a duration such as `40 s` or `3 min`. */
function formatSeconds(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
