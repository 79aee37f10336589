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
  const titles = Object.keys(rows[0] ?? {});
  return align([titles, ...rows.map((row) => titles.map((title) => row[title] ?? null))]);
}

/** Formats named values as a list with one line each, without those that are `null`. */
export function formatRecord(record: Readonly<Record<string, Cell>>): string {
  const entries = Object.entries(record).filter(([, value]) => value !== null);
  return align(entries.map(([title, value]) => [title, toText(value)]));
}

function align(lines: readonly (readonly Cell[])[]): string {
  const columns = (lines[0] ?? []).map((_, index) => {
    const cells = lines.map((line) => line[index] ?? null);
    const isRight = cells.some((cell) => typeof cell === "number");
    const width = Math.max(...cells.map((cell) => stringWidth(toText(cell))));
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
