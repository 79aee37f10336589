import { stripVTControlCharacters } from "node:util";

/** Reads the cells of a printed table, row by row, the titles first. Columns are two blanks apart. */
export function tableCells(stdout: string): string[][] {
  const lines = stripVTControlCharacters(stdout).split("\n");
  const start = lines.findIndex((line) => /\S {2,}\S/.test(line));
  const table = lines.slice(start).filter((line) => /\S {2,}\S/.test(line));
  const width = Math.max(...table.map((line) => line.length));
  const isGap = (at: number) => table.every((line) => (line[at] ?? " ") === " ");
  const bounds = Array.from({ length: width }, (_, at) => at).filter(
    (at) => !isGap(at) && (at === 0 || (isGap(at - 1) && isGap(at - 2))),
  );
  return table.map((line) =>
    bounds.map((from, index) => line.slice(from, bounds[index + 1] ?? width).trim()),
  );
}
