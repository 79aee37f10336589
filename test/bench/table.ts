export function toMarkdown(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(" | ")} |\n`;
  return [head, head.map(() => "---"), ...rows].map(line).join("");
}
