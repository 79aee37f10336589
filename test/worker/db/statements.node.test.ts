import { globSync, readdirSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { build } from "esbuild";
import { expect, test } from "vitest";

/**
 * Returns the expressions that a file of the Worker prepares. `sql` stands for the properties of
 * that name in the same file.
 */
function preparedIn(source: string): string[] {
  const calls = [...source.matchAll(/\.prepare\(([^)]*)\)/g)].map(([, argument = ""]) => argument);
  if (calls.length !== source.split(".prepare").length - 1) throw new Error("An unusual call.");
  const properties = [...source.matchAll(/\bsql: (\w+),/g)].map(([, value = ""]) => value);
  if (calls.includes("sql") && properties.length === 0) throw new Error("No statement is `sql`.");
  return [...calls.filter((argument) => argument !== "sql"), ...properties];
}

/**
 * Evaluates expressions at the end of a file, where they can use only the file's constants and
 * imports.
 */
async function valuesIn(file: string, source: string, expressions: string[]): Promise<string[]> {
  const contents = `${source}\nexport const statements = [${expressions.join()}];`;
  const { outputFiles } = await build({
    stdin: { contents, loader: "ts", resolveDir: dirname(file) },
    bundle: true,
    format: "esm",
    write: false,
  });
  const script = Buffer.from(outputFiles[0]?.contents ?? "").toString("base64");
  return (await import(/* @vite-ignore */ `data:text/javascript;base64,${script}`)).statements;
}

function migrated(folder: string): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  for (const file of readdirSync(folder).toSorted()) {
    if (file.endsWith(".sql")) database.exec(readFileSync(`${folder}/${file}`, "utf8"));
  }
  return database;
}

const files = globSync("src/worker/**/*.ts")
  .map((file) => ({ file, source: readFileSync(file, "utf8") }))
  .map(({ file, source }) => ({ file, source, prepared: preparedIn(source) }))
  .filter(({ prepared }) => prepared.length > 0);
const databases = [migrated("migrations/orders"), migrated("migrations/keys")];

test.each(files)(
  "each statement of $file suits exactly one database",
  async ({ file, source, prepared }) => {
    for (const statement of await valuesIn(resolve(file), source, prepared)) {
      const errors = databases.flatMap((database) => {
        try {
          database.prepare(statement);
          return [];
        } catch (error) {
          return [String(error)];
        }
      });
      expect(errors, statement).toHaveLength(1);
    }
  },
);
