import { html } from "hono/html";

/**
 * The heading of a column, and the function that returns a row's cell. Numbers are aligned right.
 */
export type Column<Row> = readonly [heading: string, cell: (row: Row) => string | number];

/**
 * Returns an HTML table that scrolls if it is too large. The first cell of a row is its heading.
 */
export function dataTable<Row>(
  caption: string,
  rows: readonly Row[],
  columns: readonly Column<Row>[],
): ReturnType<typeof html> {
  const [first, ...others] = columns;
  return html`<div class="scroll" role="region" aria-label="${caption}" tabindex="0">
    <table>
      <caption>
        ${caption}
      </caption>
      <thead>
        <tr>
          ${columns.map(([heading]) => html`<th scope="col">${heading}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              <th scope="row">${first?.[1](row)}</th>
              ${others.map(([, cell]) => tableCell(cell(row)))}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function tableCell(value: string | number): ReturnType<typeof html> {
  if (typeof value === "string") return html`<td>${value}</td>`;
  return html`<td class="number">${value.toLocaleString("en")}</td>`;
}
