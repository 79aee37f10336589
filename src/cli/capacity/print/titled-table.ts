import { Table } from "console-table-printer";

/** A column's title; figures stand to the right, text to the left. */
export type Column = string | readonly [title: string, alignment: "left"];

/** A table under its title, with a remark below. */
export function titledTable(
  title: string,
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  remark?: string,
): string {
  const table = new Table({
    shouldDisableColors: true,
    columns: columns.map((column, index) =>
      typeof column === "string"
        ? { name: `${index}`, title: column }
        : { name: `${index}`, title: column[0], alignment: column[1] },
    ),
  });
  for (const row of rows) table.addRow(Object.fromEntries(row.entries()));
  return [title, table.render(), ...(remark === undefined ? [] : [remark])].join("\n");
}
