import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { unstable_readConfig as readConfig } from "wrangler";
import { parseConfig } from "../../../src/worker/config.ts";

const WRANGLER_TOML = readFileSync("wrangler.toml", "utf8");

const folder = mkdtempSync(join(tmpdir(), "store-orders-edits-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** Parses a wrangler.toml with wrangler's own parser. */
function configOf(text: string, env?: string) {
  const config = join(folder, "wrangler.toml");
  writeFileSync(config, text);
  return readConfig({ config, ...(env !== undefined && { env }) });
}

/** An edit of `wrangler.toml` that a document shows. */
interface Edit {
  readonly page: string;
  readonly from: string;
  readonly to: string;
  /** The settings that the edit adds, by name. */
  readonly added: readonly (readonly [name: string, value: unknown])[];
}

function readEdits(page: string): Edit[] {
  const blocks = readFileSync(join("docs", page), "utf8").matchAll(/^```diff\n([^]*?)^```$/gm);
  return [...blocks].map(([, block = ""]) => {
    const lines = block.trimEnd().split("\n");
    const without = (mark: string) =>
      lines.filter((line) => !line.startsWith(mark)).map((line) => `${line.slice(1)}\n`);
    const added = lines
      .filter((line) => line.startsWith("+"))
      .map((line) => /^\+(\w+) = (.+)$/.exec(line) ?? [])
      .map(([, name = "", value = ""]) => [name, JSON.parse(value) as unknown] as const);
    return { page, from: without("+").join(""), to: without("-").join(""), added };
  });
}

const EDITS = readdirSync("docs")
  .filter((name) => name.endsWith(".md"))
  .flatMap(readEdits);

describe("the edits of wrangler.toml in the documents", () => {
  it("are these settings", () => {
    expect(EDITS.map(({ page, added }) => [page, ...added.map(([name]) => name)])).toEqual([
      ["operating.md", "BAN_MIN_STRIKES"],
      ["runbook.md", "BAN_MODE"],
      ["runbook.md", "BAN_MIN_STRIKES"],
      ["runbook.md", "REQUEST_LOG"],
      ["runbook.md", "workers_dev"],
      ["runbook.md", "LIMITER_TIMEOUT_MS"],
    ]);
  });

  it.each(EDITS)("$page: $added", ({ from, to, added }) => {
    expect(WRANGLER_TOML.split(from)).toHaveLength(2);
    const before = configOf(WRANGLER_TOML, "production");
    const after = configOf(WRANGLER_TOML.replace(from, to), "production");
    parseConfig(after.vars);
    for (const [name, value] of added) {
      expect({ ...before, ...before.vars }).not.toHaveProperty(name, value);
      expect({ ...after, ...after.vars }).toHaveProperty(name, value);
    }
    // The edit changes no other setting. For example, a table inserted above a var would
    // contain the var.
    const names = added.map(([name]) => name);
    const rest = ({ vars, ...config }: typeof after) => ({ ...config, ...vars });
    const others = (config: typeof after) =>
      Object.fromEntries(Object.entries(rest(config)).filter(([name]) => !names.includes(name)));
    expect(others(after)).toEqual(others(before));
  });
});

describe.each([[undefined], ["staging"], ["production"]])("the configuration of %s", (env) => {
  it("hides query strings from logs and traces, and traces a sample", () => {
    expect(configOf(WRANGLER_TOML, env).observability).toEqual({
      enabled: true,
      redact_query_string: true,
      logs: { enabled: true, invocation_logs: false },
      traces: { enabled: true, head_sampling_rate: 0.01 },
    });
  });
});
