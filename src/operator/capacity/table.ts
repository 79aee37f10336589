import { figureCell, formatTable, type TableOptions, textCell } from "../terminal-text.ts";

/**
 * Formats a table below its title.
 *
 * @param columns the titles. A column whose title begins with `<` is aligned left, others right.
 */
export function table(
  title: string,
  columns: readonly string[],
  rows: readonly (readonly string[])[],
  options: TableOptions = {},
): string {
  const cells = rows.map((row) =>
    Object.fromEntries(
      columns.map((column, index) => {
        const text = row[index] ?? "";
        const isText = column.startsWith("<");
        return [column.replace("<", ""), isText ? textCell(text, false) : figureCell(text)];
      }),
    ),
  );
  return `${title}\n${formatTable(cells, options)}`.trimEnd();
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Formats a number with three significant digits, such as `4.99M`; from 1e15 on as `3.6e17`. */
export function count(value: number): string {
  if (value >= 1e15) return value.toExponential(1).replace("+", "");
  return value < 10_000 ? plain.format(value) : compact.format(value);
}

/** Formats an amount such as `$5.49` or `$1.68K`. */
export function dollars(value: number): string {
  return value < 10 ? `$${value.toFixed(2)}` : `$${count(value)}`;
}

/** Formats a share such as 0.42 as `42 %`. From 10 on, formats a factor such as `35.2 ×`. */
export function times(share: number): string {
  return share < 10
    ? `${plain.format(Number((share * 100).toPrecision(2)))} %`
    : `${count(share)} ×`;
}
