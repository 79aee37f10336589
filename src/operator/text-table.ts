import { Table } from "console-table-printer";

/** A row of a printed table: the cell of each column. */
export type TextRow = Readonly<Record<string, string | number | null>>;

/** Lays out rows as text. The first row determines the columns; those with numbers align right. */
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
