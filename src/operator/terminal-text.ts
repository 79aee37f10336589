import { styleText } from "node:util";
import stringWidth from "string-width";

const DEFAULT_WIDTH = 80;
/** The minimum width of a shortened column in a table, in terminal columns. */
const LEAST_CUT_WIDTH = 12;
const GAP = "  ";
const INDENT = "    ";

const DECIMAL = new Intl.NumberFormat("en");
const SEGMENTS = new Intl.Segmenter();

/** A value in a table. A time is in UTC, without seconds. `null` is an empty cell. */
type Cell = string | number | Date | Marked | null;

/** A row of a table: its cells, by the titles of their columns. */
export type Row = Readonly<Record<string, Cell>>;

interface Marked {
  readonly text: string;
  /** True shows the text in red. */
  readonly isAlarm?: boolean;
  /** True aligns the column right. */
  readonly isFigure?: boolean;
}

/** How the columns of a table are fitted into the width of the terminal. */
interface TableOptions {
  /** The columns that may be shortened. */
  readonly cut?: readonly string[];
  /** The column that is shown in full, on an indented line below its row, without a title. */
  readonly below?: string;
  /** The columns that may be left out, the most important one first. */
  readonly optional?: readonly string[];
}

interface Column {
  readonly name: string;
  readonly title: string;
  /** The title, then a cell for each row. */
  readonly cells: readonly Marked[];
  readonly isRight: boolean;
  width: number;
}

/** Formats a number as in `10,000`. */
export const formatNumber = (value: number): string => DECIMAL.format(value);

/** Formats a number with its noun, such as `1 order` or `10,000 orders`. */
export function formatCount(count: number, noun: string): string {
  return `${formatNumber(count)} ${noun}${count === 1 ? "" : "s"}`;
}

/** Formats a time as in `2026-11-21 23:20 UTC`. */
export function formatTime(time: Date): string {
  return `${toMinute(time)} UTC`;
}

/** Returns a cell with a share of a limit, such as `87 %`. The cell is red from 100 % on. */
export function shareCell(share: number): Marked {
  return { text: `${Math.round(share * 100)} %`, isAlarm: share >= 1, isFigure: true };
}

/**
 * Formats rows as a table that fits the terminal. Leaves out empty columns. If the table is still
 * too wide, shortens texts, and then leaves out optional columns and names them in a last line.
 */
export function formatTable(
  rows: readonly Row[],
  { cut = [], optional = [], below }: TableOptions = {},
): string {
  const all = columnsOf(rows).filter(({ name }) => name !== below);
  const room = terminalWidth();
  const leastWidth = ({ name, title, width }: Column) =>
    cut.includes(name) ? Math.min(width, Math.max(LEAST_CUT_WIDTH, title.length)) : width;
  let used = -GAP.length;
  const fits = (column: Column) => {
    const width = GAP.length + leastWidth(column);
    const isShown = !optional.includes(column.name) || used + width <= room;
    if (isShown) used += width;
    return isShown;
  };
  const importance = ({ name }: Column) => optional.indexOf(name);
  const shown = all.toSorted((one, other) => importance(one) - importance(other)).filter(fits);
  const columns = all.filter((column) => shown.includes(column));
  for (const column of columns) {
    if (!cut.includes(column.name)) continue;
    const least = leastWidth(column);
    column.width = Math.min(column.width, least + Math.max(0, room - used));
    used += column.width - least;
  }
  const lines = [{}, ...rows].flatMap((row: Row, index) => {
    const line = columns.map((column) => align(column, column.cells[index] ?? NOTHING)).join(GAP);
    const { text } = toMark(row[below ?? ""] ?? null);
    return [line.trimEnd(), ...(text === "" ? [] : [`${INDENT}${text}`])];
  });
  const leftOut = all.filter((column) => !shown.includes(column)).map(({ name }) => name);
  if (leftOut.length > 0) {
    const note = `Left out for lack of room: ${leftOut.join(", ")}. A wider terminal shows more.`;
    lines.push(wrapText(note));
  }
  return `${lines.join("\n")}\n`;
}

/** Formats a single row as a list with a line for each cell that is not empty. */
export function formatUpright(row: Row): string {
  const cells = Object.entries(row)
    .map(([title, cell]) => ({ title, mark: toMark(cell), isTime: cell instanceof Date }))
    .filter(({ mark }) => mark.text !== "");
  const width = Math.max(...cells.map(({ title }) => title.length));
  const lines = cells.map(({ title, mark, isTime }) => {
    return `${title.padEnd(width)}${GAP}${paint(mark, mark.text)}${isTime ? " UTC" : ""}\n`;
  });
  return lines.join("");
}

const NOTHING: Marked = { text: "" };

function columnsOf(rows: readonly Row[]): Column[] {
  const columns = Object.keys(rows[0] ?? {}).map((name): Column => {
    const values = rows.map((row) => row[name] ?? null);
    const hasTimes = values.some((value) => value instanceof Date);
    const title = `${name.replaceAll("_", " ")}${hasTimes ? " (UTC)" : ""}`;
    const cells = [{ text: title }, ...values.map(toMark)];
    const width = Math.max(...cells.map(({ text }) => stringWidth(text)));
    return { name, title, cells, width, isRight: cells.some(({ isFigure }) => isFigure) };
  });
  return columns.filter(({ cells }) => cells.slice(1).some(({ text }) => text !== ""));
}

function toMark(cell: Cell): Marked {
  if (typeof cell === "number") return { text: formatNumber(cell), isFigure: true };
  if (cell instanceof Date) return { text: toMinute(cell) };
  return typeof cell === "string" ? { text: cell } : (cell ?? NOTHING);
}

function toMinute(time: Date): string {
  return time.toISOString().slice(0, 16).replace("T", " ");
}

function align({ width, isRight }: Column, mark: Marked): string {
  const text = cutText(mark.text, width);
  const padding = " ".repeat(width - stringWidth(text));
  return isRight ? padding + paint(mark, text) : paint(mark, text) + padding;
}

/** Shortens a text that is too wide. Never splits a character. */
function cutText(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let kept = "";
  for (const { segment } of SEGMENTS.segment(text)) {
    if (stringWidth(kept + segment) >= width) break;
    kept += segment;
  }
  return `${kept}…`;
}

// `styleText` omits the colour if `NO_COLOR` is set, or if stdout is not a terminal.
function paint({ isAlarm }: Marked, text: string): string {
  return isAlarm ? styleText("red", text, { stream: process.stdout }) : text;
}

/**
 * Wraps a text to the width of the terminal. Before that, joins adjacent lines that are not
 * indented. In an indented table, aligns new lines with the last column. Adds a backslash before
 * each new line break in a shell command.
 */
export function wrapText(text: string): string {
  const width = terminalWidth();
  const joined = text.replaceAll(/(?<=^\S.*)\n(?=\S)/gm, " ");
  return joined
    .split("\n")
    .map((line) => wrapLine(line, width))
    .join("\n");
}

function wrapLine(line: string, width: number): string {
  if (stringWidth(line) <= width) return line;
  const indent = line.search(/\S/);
  const isCommand = line.startsWith("$ ", indent);
  const [command = "", note] = isCommand ? line.trim().split(/ {2,}/) : [line];
  if (note !== undefined) {
    const below = " ".repeat(indent + 2);
    return `${wrapLine(" ".repeat(indent) + command, width)}\n${wrapLine(below + note, width)}`;
  }
  const column = line.lastIndexOf("  ") + 2;
  const isTable = indent > 0 && column > indent && column < width / 2;
  const hanging = isTable ? column : isCommand ? indent + 4 : indent;
  const end = isCommand ? " \\" : "";
  const lines = [""];
  for (const [chunk] of line.matchAll(/ *(?:"[^"]*"|\S)+/g)) {
    const longer = lines.at(-1) + chunk;
    const fits = stringWidth(longer) + end.length <= width;
    if (fits || lines.at(-1) === "") lines[lines.length - 1] = longer;
    else lines.push(" ".repeat(hanging) + chunk.trimStart());
  }
  return lines.join(`${end}\n`);
}

/** Returns the width of the terminal in columns; `COLUMNS` or 80 if stdout is not a terminal. */
export function terminalWidth(): number {
  // `||` rather than `??`, because some terminals report a width of 0.
  return process.stdout.columns || Number(process.env["COLUMNS"]) || DEFAULT_WIDTH;
}
