import { Help } from "commander";
import stringWidth from "string-width";

/** Wraps texts by the columns that they take in a terminal. */
const help = Object.assign(new Help(), { displayWidth: stringWidth });
const DECIMAL = new Intl.NumberFormat("en");

/** A value in a table. A time is shown in UTC, and `null` as a dash. */
export type Cell = string | number | Date | null;

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
export function formatAge(seconds: number): string {
  const hours = Math.floor(seconds / 3_600);
  if (hours < 2) return `${Math.floor(seconds / 60)} min ago`;
  return `${hours < 48 ? `${hours} h` : formatCount(Math.floor(hours / 24), "day")} ago`;
}

/** The width of the terminal in characters. What is piped is not cut. */
export const terminalWidth = (): number => process.stdout.columns ?? Infinity;

/**
 * Formats rows as a table with a line of titles. Numbers are aligned right. If the table is wider than
 * the terminal, cuts the texts of the column `cuttable`, to eight characters at least.
 */
export function formatTable(
  rows: readonly Readonly<Record<string, Cell>>[],
  cuttable?: string,
): string {
  const titles = Object.keys(rows[0] ?? {});
  const format = (width: number) =>
    align([
      titles,
      ...rows.map((row) =>
        titles.map((title) => {
          const cell = row[title] ?? null;
          return title === cuttable ? cut(toText(cell), width) : cell;
        }),
      ),
    ]);
  const whole = format(Infinity);
  const excess = widest(whole.split("\n")) - terminalWidth();
  if (excess <= 0) return whole;
  const width = widest(rows.map((row) => toText(row[cuttable ?? ""] ?? null)));
  return format(Math.max(8, width - excess));
}

/**
 * Formats rows as `formatTable` does, or, if the table is wider than the terminal, with the long texts of
 * the column `long` below their rows.
 */
export function formatTableOfTexts(
  rows: readonly Readonly<Record<string, Cell>>[],
  long: string,
  cuttable: string,
): string {
  const whole = formatTable(rows);
  const width = terminalWidth();
  if (widest(whole.split("\n")) <= width) return whole;
  const short = rows.map(({ [long]: _long, ...row }) => row);
  const [titles = "", ...lines] = formatTable(short, cuttable).trimEnd().split("\n");
  const all = lines.flatMap((line, index) => {
    const text = help.boxWrap(toText(rows[index]?.[long] ?? null), width - 4);
    return text === "" ? [line] : [line, text.replaceAll(/^/gm, "    ")];
  });
  return [titles, ...all, ""].join("\n");
}

/** Cuts a text to a width in columns of a terminal, with `…` at its end. */
function cut(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let start = "";
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (stringWidth(start + segment) >= width) break;
    start += segment;
  }
  return `${start}…`;
}

const widest = (texts: readonly string[]) => Math.max(...texts.map((text) => stringWidth(text)));

/** Formats named values as a list with one line each, without those that are `null`. */
export function formatRecord(record: Readonly<Record<string, Cell>>): string {
  const entries = Object.entries(record).filter(([, value]) => value !== null);
  return align(entries.map(([title, value]) => [title, toText(value)]));
}

function align(lines: readonly (readonly Cell[])[]): string {
  const columns = (lines[0] ?? []).map((_, index) => {
    const cells = lines.map((line) => line[index] ?? null);
    const isRight = cells.some((cell) => typeof cell === "number");
    const width = widest(cells.map(toText));
    return cells.map((cell) => {
      const text = toText(cell);
      const space = " ".repeat(width - stringWidth(text));
      return isRight ? space + text : text + space;
    });
  });
  const texts = lines.map((_, index) => columns.map((cells) => cells[index]).join("  "));
  return texts.map((text) => `${text.trimEnd()}\n`).join("");
}

function toText(value: Cell): string {
  if (value === null) return MISSING;
  if (value instanceof Date) return formatTime(value);
  return typeof value === "number" ? formatNumber(value) : value;
}
