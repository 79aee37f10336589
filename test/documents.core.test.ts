import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { describe, expect, test } from "vitest";

const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard"], { encoding: "utf8" })
  .split("\n")
  .filter((file) => existsSync(file));
const documents = files.filter((file) => file.endsWith(".md"));

function headings(document: string): string[] {
  const text = readFileSync(document, "utf8").replaceAll(/^```[^]*?^```$/gm, "");
  return [...text.matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => title);
}

/** Returns the anchor that GitHub gives a heading. */
function anchorOf(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\w\- ]/g, "")
    .replaceAll(" ", "-");
}

describe("documents", () => {
  test.each(documents)("the links of %s lead to a file and a heading", (document) => {
    const text = readFileSync(document, "utf8");
    for (const [, link = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
      if (/^https?:/.test(link)) continue;
      const [path = "", anchor] = link.split("#");
      const target = path === "" ? document : normalize(join(document, "..", path));
      expect(existsSync(target), link).toBe(true);
      if (anchor !== undefined) expect(headings(target).map(anchorOf), link).toContain(anchor);
    }
  });

  test("comments name existing documents and sections", () => {
    const sources = files.filter((file) => /^(?:src|test|migrations|\.github|[^/]+$)/.test(file));
    const missing = sources.flatMap((file) => {
      const text = readFileSync(file, "utf8").replaceAll(/\n\s*(?:\*|\/\/|--|#) /g, " ");
      const named = text.matchAll(/(docs\/\w+\.(?:md|sql))(?:, (?:section )?([A-Z][\w ]*\w))?/g);
      return [...named].flatMap(([name, document = "", section = ""]) =>
        existsSync(document) &&
        (section === "" ||
          section
            .split(/ and (?=[A-Z])/)
            .every((part) => headings(document).some((title) => title.startsWith(part))))
          ? []
          : [`${file}: ${name}`],
      );
    });
    expect(missing).toEqual([]);
  });
});
