import { formatNumber } from "../terminal-text.ts";

/** The time between two drawings of a bar on a terminal. */
const DRAW_EVERY_MS = 100;
/** The time between two progress lines in a file or pipe. A shorter task prints no line. */
const LINE_EVERY_MS = 10_000;
const BAR_CHARACTERS = 20;

export interface Task {
  /** For example `Reading`. */
  readonly doing: string;
  /** The unit in which progress is shown; left out if the progress cannot be measured. */
  readonly unit?: "MB" | "orders";
  /** The final number of orders, or of bytes if `unit` is `MB`; left out if unknown. */
  readonly total?: number | undefined;
}

interface Progress extends Disposable {
  advance(by: number): void;
}

type Terminal = NodeJS.WritableStream & { readonly isTTY?: boolean; readonly columns?: number };

/** Shows a task's progress until disposed: a bar on a terminal, else a line every ten seconds. */
export function startProgress(task: Task, stream: Terminal = process.stderr): Progress {
  const { doing, unit, total } = task;
  const isTerminal = stream.isTTY === true;
  const startedMs = Date.now();
  let value = 0;
  const amount = (count: number) =>
    unit === "MB" ? (count / 1e6).toFixed(1) : formatNumber(count);
  const line = () => {
    const seconds = Math.round((Date.now() - startedMs) / 1_000);
    const of = total === undefined ? "" : ` of ${amount(total)}`;
    const counted = unit === undefined ? "" : `${amount(value)}${of} ${unit}`;
    if (!isTerminal) return `${doing}:${counted === "" ? "" : ` ${counted},`} ${seconds} s`;
    if (total === undefined) return `${doing}  ${counted}  ${formatSeconds(seconds)}`;
    const share = total === 0 ? 1 : Math.min(1, value / total);
    const done = Math.round(share * BAR_CHARACTERS);
    const bar = `${"=".repeat(done)}${"-".repeat(BAR_CHARACTERS - done)}`;
    // The remaining time is unknown before the first progress, and is not shown at the end.
    const leftSeconds = value === 0 ? 0 : Math.round(seconds * (1 / share - 1));
    const left = leftSeconds === 0 ? "" : `  ${formatSeconds(leftSeconds)} left`;
    return `${doing} [${bar}] ${Math.floor(share * 100)}%  ${counted}${left}`;
  };
  // Overwrites the whole earlier line. Does not cut the line if a terminal reports a width of 0.
  const draw = () => stream.write(`\r${line().slice(0, stream.columns || undefined)}\u001b[K`);
  if (isTerminal && unit === undefined) {
    stream.write(`${doing} ...\n`);
    return { advance: () => {}, [Symbol.dispose]: () => {} };
  }
  const timer = isTerminal
    ? setInterval(draw, DRAW_EVERY_MS)
    : setInterval(() => stream.write(`${line()}\n`), LINE_EVERY_MS);
  timer.unref();
  return {
    advance: (by) => void (value += by),
    [Symbol.dispose]: () => {
      clearInterval(timer);
      if (!isTerminal) return;
      draw();
      stream.write("\n");
    },
  };
}

/** Yields the bytes unchanged, and shows on stderr how many have been read. */
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

function formatSeconds(seconds: number): string {
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
