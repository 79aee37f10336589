import { Table } from "console-table-printer";

/** A row of a table, with the text or number for each column name. */
export type TextRow = Readonly<Record<string, string | number | null>>;

/**
 * Formats rows as a text table. The first row determines the columns. Numbers are aligned right.
 */
export function textTable(rows: readonly TextRow[]): string {
  const columns = Object.entries(rows[0] ?? {}).map(([name, value]) => ({
    name,
    title: name.replaceAll("_", " "),
    alignment: typeof value === "number" ? ("right" as const) : ("left" as const),
  }));
  const table = new Table({ shouldDisableColors: true, columns });
  for (const row of rows) table.addRow(row);
  return table.render();
}
