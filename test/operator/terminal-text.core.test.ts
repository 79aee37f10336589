import { stripVTControlCharacters } from "node:util";
import { afterEach, describe, expect, it, vi } from "vitest";
import {
  formatTable,
  formatUpright,
  shareCell,
  wrapText,
} from "../../src/operator/terminal-text.ts";

const AT = new Date("2026-11-21T23:20:59.999Z");

function terminal(columns: number): void {
  vi.spyOn(process, "stdout", "get").mockReturnValue(
    Object.assign(Object.create(process.stdout), { isTTY: true, columns, getColorDepth: depth }),
  );
}

/** Returns the colour depth in bits, which is 1 with NO_COLOR, as in Node. */
function depth(): number {
  return process.env["NO_COLOR"] === undefined ? 8 : 1;
}

afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
});

const keys = ["Pet shop", "漢字漢字漢字漢字漢👩‍👩‍👧 & Company", "x".repeat(100)].map((name) => ({
  id: "key_isxy5b7tgrodf5lw",
  name,
  requests: 10_000,
  state: { text: "revoked", isAlarm: true },
  created: AT,
  near: null,
}));
const OPTIONS = { cut: ["name"], optional: ["created"] };

describe("formatTable", () => {
  it.each([60, 80, 100, 300])("fits %d columns", (columns) => {
    terminal(columns);
    const lines = stripVTControlCharacters(formatTable(keys, OPTIONS)).trimEnd().split("\n");
    for (const line of lines) expect(widthOf(line)).toBeLessThanOrEqual(columns);
    expect(lines[0]?.includes("created (UTC)")).toBe(columns > 60);
    expect(lines.slice(4).join(" ")).toBe(
      columns > 60 ? "" : "Left out for lack of room: created. A wider terminal shows more.",
    );
  });

  it("cuts names with an ellipsis, whole characters at a time", () => {
    vi.stubEnv("COLUMNS", "");
    expect(formatTable(keys, OPTIONS)).toBe(
      [
        "id                    name                   requests  state    created (UTC)",
        "key_isxy5b7tgrodf5lw  Pet shop                 10,000  revoked  2026-11-21 23:20",
        "key_isxy5b7tgrodf5lw  漢字漢字漢字漢字漢👩‍👩‍👧…    10,000  revoked  2026-11-21 23:20",
        "key_isxy5b7tgrodf5lw  xxxxxxxxxxxxxxxxxxxx…    10,000  revoked  2026-11-21 23:20",
        "",
      ].join("\n"),
    );
  });

  it("fits 80 columns of a terminal that does not know its width", () => {
    const lines = formatTable(keys, OPTIONS);
    terminal(0);
    expect(stripVTControlCharacters(formatTable(keys, OPTIONS))).toBe(lines);
  });

  it("follows COLUMNS behind a pipe", () => {
    vi.stubEnv("COLUMNS", "200");
    expect(formatTable(keys)).toContain("x".repeat(100));
  });

  it("shows a column below its row, and nothing for an empty one", () => {
    const rows = [
      { key: "a", details: "name: Zoo → Chain" },
      { key: "b", details: "" },
    ];
    expect(formatTable(rows, { below: "details" })).toBe("key\na\n    name: Zoo → Chain\nb\n");
  });
});

describe("colour", () => {
  const RED_FULL = "\u001b[31m100 %\u001b[39m";
  const rows = [{ used: shareCell(1) }, { used: shareCell(0.42) }];

  it("marks on a terminal what needs attention", () => {
    terminal(80);
    expect(formatTable(rows)).toBe(` used\n${RED_FULL}\n 42 %\n`);
    expect(formatUpright({ state: { text: "banned", isAlarm: true } })).toContain(
      "\u001b[31mbanned",
    );
  });

  it("is off with NO_COLOR, and without a terminal", () => {
    expect(formatTable(rows)).toBe(" used\n100 %\n 42 %\n");
    terminal(80);
    vi.stubEnv("NO_COLOR", "1");
    expect(formatTable(rows)).toBe(" used\n100 %\n 42 %\n");
  });
});

it("formats a row upright, without what is empty", () => {
  const row = { id: "key_a", "per day": 10_000, created: AT, near: null, note: "" };
  expect(formatUpright(row)).toBe(
    "id       key_a\nper day  10,000\ncreated  2026-11-21 23:20 UTC\n",
  );
});

describe("wrapText", () => {
  it.each([
    ["one\ntwo three four\n\n  next", "one two three\nfour\n\n  next"],
    ["  a   one two three", "  a   one two\n      three"],
    ['  $ npm x --name "Pet shop"', '  $ npm x \\\n      --name \\\n      "Pet shop"'],
    ["  $ npm x      a long note", "  $ npm x\n    a long note"],
  ])("fits %j into 15 columns", (text, wrapped) => {
    vi.stubEnv("COLUMNS", "15");
    expect(wrapText(text)).toBe(wrapped);
  });
});

/** Counts the columns of a terminal. A Chinese character or an emoji takes two columns. */
function widthOf(line: string): number {
  return line.replaceAll(/\p{Script=Han}|\p{RGI_Emoji}/gv, "WW").length;
}
