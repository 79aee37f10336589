import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join, normalize } from "node:path";
import { expect, test } from "vitest";

const documents = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "*.md"])
  .toString()
  .split("\n")
  .filter((file) => existsSync(file));

/** Returns the anchors that GitHub gives the headings of a document. */
function anchorsOf(document: string): string[] {
  const text = readFileSync(document, "utf8").replaceAll(/^```[^]*?^```$/gm, "");
  const titles = [...text.toLowerCase().matchAll(/^#+ (.*)$/gm)].map(([, title = ""]) => title);
  return titles.map((title) => title.replaceAll(/[^\w\- ]/g, "").replaceAll(" ", "-"));
}

test.each(documents)("the links of %s lead to a file and a heading", (document) => {
  const text = readFileSync(document, "utf8");
  for (const [, link = ""] of text.matchAll(/\]\(([^)\s]+)\)/g)) {
    if (/^https?:/.test(link)) continue;
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? document : normalize(join(document, "..", path));
    expect(existsSync(target), link).toBe(true);
    if (anchor !== undefined) expect(anchorsOf(target), link).toContain(anchor);
  }
});
