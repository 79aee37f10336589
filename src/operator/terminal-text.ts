import { Help } from "commander";
import stringWidth from "string-width";

/** Wraps texts by the columns that they take in a terminal. */
const help = Object.assign(new Help(), { displayWidth: stringWidth });
const DECIMAL = new Intl.NumberFormat("en");

/** A value in a table. A time is shown in UTC, and `null` as a dash. */
export type Cell = string | number | bigint | boolean | Date | null;

/** The text in place of a value that is missing or unknown. */
export const MISSING = "–";

/** Formats a number as in `10,000`. */
export const formatNumber = (value: number): string => DECIMAL.format(value);

/** Formats a number with its noun, such as `1 order` or `10,000 orders`. */
export function formatCount(count: number, noun: string): string {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Formats a time as in `2026-11-21 23:20 UTC`. */
export function formatTime(time: Date): string {
  return `${time.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** Formats how long ago something was, as in `5 min ago`, `3 h ago` or `12 days ago`. */
export function formatAge(seconds: number | null): string {
  if (seconds === null) return MISSING;
  const hours = Math.floor(seconds / 3_600);
  if (hours < 2) return `${Math.floor(seconds / 60)} min ago`;
  return `${hours < 48 ? `${hours} h` : formatCount(Math.floor(hours / 24), "day")} ago`;
}

/**
 * Formats rows as a table with a line of titles. Numbers are aligned right. If the table is wider than
 * the terminal, puts the texts of the column `long` below their rows, and cuts those of `cuttable`, to
 * eight characters at least.
 */
export function formatTable(
  rows: readonly Readonly<Record<string, Cell>>[],
  cuttable = "",
  long?: string,
): string {
  const titles = Object.keys(rows[0] ?? {});
  const whole = align([titles, ...rows.map((row) => Object.values(row))]);
  // What is piped is not cut.
  const width = process.stdout.columns ?? Infinity;
  const excess = widest(whole.split("\n")) - width;
  if (excess <= 0) return whole;
  if (long === undefined) {
    const room = Math.max(8, widest(rows.map((row) => toText(row[cuttable] ?? null))) - excess);
    const fit = (title: string, cell: Cell) =>
      title === cuttable ? cut(toText(cell), room) : cell;
    const cells = rows.map((row) => Object.entries(row).map((entry) => fit(...entry)));
    return align([titles, ...cells]);
  }
  const short = rows.map(({ [long]: _long, ...row }) => row);
  const [head, ...lines] = formatTable(short, cuttable).split("\n");
  const all = lines.map((line, index) => {
    const text = help.boxWrap(toText(rows[index]?.[long] ?? ""), width - 4);
    return text === "" ? line : `${line}\n${text.replaceAll(/^/gm, "    ")}`;
  });
  return [head, ...all].join("\n");
}

/** Cuts a text to a width in columns of a terminal, with `…` at its end. */
function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  const segments = Array.from(new Intl.Segmenter().segment(text), ({ segment }) => segment);
  while (stringWidth(segments.join("")) >= width) segments.pop();
  return `${segments.join("")}…`;
}

const widest = (texts: readonly string[]) => Math.max(...texts.map((text) => stringWidth(text)));

/** Formats named values as a list with one line each, without those that are `null`. */
export function formatRecord(entries: readonly (readonly [name: string, value: Cell])[]): string {
  const known = entries.filter(([, value]) => value !== null);
  return align(known.map(([name, value]) => [name, toText(value)]));
}

function align(lines: readonly (readonly Cell[])[]): string {
  const columns = (lines[0] ?? []).map((_, index) => {
    const cells = lines.map((line) => line[index] ?? null);
    const texts = cells.map(toText);
    const width = widest(texts);
    const isRight = cells.some((cell) => typeof cell === "number");
    return texts.map((text) => {
      const space = " ".repeat(width - stringWidth(text));
      return isRight ? space + text : text + space;
    });
  });
  const texts = lines.map((_, index) => columns.map((column) => column[index]).join("  "));
  return texts.map((text) => `${text.trimEnd()}\n`).join("");
}

function toText(value: Cell): string {
  if (value === null) return MISSING;
  if (value instanceof Date) return formatTime(value);
  return typeof value === "number" ? formatNumber(value) : String(value);
}
