import { expect, it } from "vitest";
import { formatRecord, formatTable } from "../../src/operator/terminal-text.ts";

it("a table aligns numbers right and marks what is missing, and a record leaves it out", () => {
  const rows = [
    { name: "猫", used: 10_000, at: new Date("2026-11-21T23:20:59Z") },
    { name: "Zoo", used: 5, at: null },
  ];
  expect(formatTable(rows)).toBe(
    "name    used  at\n猫    10,000  2026-11-21 23:20 UTC\nZoo        5  –\n",
  );
  expect(formatRecord({ id: "key_a", used: 5, at: null })).toBe("id    key_a\nused  5\n");
});
