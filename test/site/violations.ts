import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { AxeResults } from "axe-core";
import type { Page } from "playwright-core";

const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/**
 * Lists the violations of WCAG 2.2, level AA, that axe finds in a page.
 *
 * @param rules the rules of axe, or tags of rules, that are checked.
 * @param exclude the selectors of elements that are not checked.
 */
export async function violations(
  page: Page,
  rules: readonly string[] = ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"],
  exclude: readonly string[] = [],
): Promise<string[]> {
  await page.evaluate(await readFile(AXE, "utf8"));
  const [part, options] = [{ exclude }, { runOnly: rules, resultTypes: ["violations"] }];
  const run = `axe.run(${JSON.stringify(part)}, ${JSON.stringify(options)})`;
  const results: AxeResults = await page.evaluate(run);
  return results.violations.flatMap(({ id, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} ${target.join(" ")}: ${failureSummary}`),
  );
}
