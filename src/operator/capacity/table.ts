/**
 * Lays out a table as text.
 *
 * @param columns titles. A column whose title begins with `<` is left-aligned.
 */
export function table(
  title: string,
  columns: readonly string[],
  rows: readonly (readonly string[])[],
): string {
  const lines = [columns.map((column) => column.replace("<", "")), ...rows];
  const texts = columns.map((column, index) => {
    const cells = lines.map((line) => line[index] ?? "");
    const width = Math.max(...cells.map((cell) => cell.length));
    return cells.map((cell) =>
      column.startsWith("<") ? cell.padEnd(width) : cell.padStart(width),
    );
  });
  const joined = lines.map((_, index) =>
    texts
      .map((cells) => cells[index])
      .join("  ")
      .trimEnd(),
  );
  return [title, ...joined.map((line) => `  ${line}`)].join("\n");
}

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const plain = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** Writes a number with three significant digits, such as `4.99M` or `3.6e17`. */
export function count(value: number): string {
  if (value >= 1e15) return value.toExponential(1).replace("+", "");
  return value < 10_000 ? plain.format(value) : compact.format(value);
}

/** Writes an amount such as `$5.49` or `$1.68K`. */
export function dollars(value: number): string {
  return value < 10 ? `$${value.toFixed(2)}` : `$${count(value)}`;
}

/** Writes a share such as `42 %`, or from ten times on as `35.2 ×`. */
export function times(share: number): string {
  return share < 10
    ? `${plain.format(Number((share * 100).toPrecision(2)))} %`
    : `${count(share)} ×`;
}
