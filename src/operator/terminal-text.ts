import stringWidth from "string-width";

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

/** Formats rows as a table with a line of titles. Numbers are aligned right. */
export function formatTable(rows: readonly Readonly<Record<string, Cell>>[]): string {
  const columns = Object.keys(rows[0] ?? {}).map((title) => {
    const values = rows.map((row) => row[title] ?? null);
    const isRight = values.some((value) => typeof value === "number");
    return padColumn([title, ...values.map(toText)], isRight);
  });
  const lines = ["", ...rows].map((_, index) => columns.map((cells) => cells[index]).join("  "));
  return lines.map((line) => `${line.trimEnd()}\n`).join("");
}

/** Formats named values as a list with one line each, without those that are `null`. */
export function formatRecord(record: Readonly<Record<string, Cell>>): string {
  const entries = Object.entries(record).filter(([, value]) => value !== null);
  const titles = padColumn(entries.map(([title]) => title));
  return entries.map(([, value], index) => `${titles[index]}  ${toText(value)}\n`).join("");
}

function padColumn(cells: readonly string[], isRight = false): string[] {
  const width = Math.max(...cells.map((cell) => stringWidth(cell)));
  return cells.map((cell) => {
    const space = " ".repeat(width - stringWidth(cell));
    return isRight ? space + cell : cell + space;
  });
}

function toText(value: Cell): string {
  if (value === null) return MISSING;
  if (value instanceof Date) return formatTime(value);
  return typeof value === "number" ? formatNumber(value) : value;
}
