import { createRequire } from "node:module";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { PLAN_LIMITS } from "../../worker/limits/plans.ts";
import { writeFolder } from "./folder.ts";
import { machineReadableFiles } from "./machine-readable.ts";
import { publicOrigin } from "./public-origin.ts";

const PAGE = join(import.meta.dirname, "..", "..", "site");
const VIEWER = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

/** The folder that wrangler.toml names under `[assets]`. */
const SITE = join(import.meta.dirname, "..", "..", "..", "dist", "site");

/**
 * Builds the static part of the service: the reference page, its viewer and the files for programs.
 */
export async function buildSite(): Promise<void> {
  const files = new Map<string, string | Uint8Array>([
    ...machineReadableFiles(publicOrigin()),
    ["index.html", await renderPage()],
    ["main.js", await bundleScript()],
  ]);
  for (const name of ["style.css", "viewer.css", "favicon.svg", "_headers", "_redirects"]) {
    files.set(name, await readFile(join(PAGE, name)));
  }
  for (const name of ["swagger-ui.css", "swagger-ui-bundle.js", "LICENSE", "NOTICE"]) {
    const target = name.startsWith("swagger-ui") ? name : `swagger-ui-${name}.txt`;
    files.set(target, withoutSourceMap(await readFile(join(VIEWER, name), "utf8")));
  }
  await writeFolder(SITE, files);
}

async function renderPage(): Promise<string> {
  const html = await readFile(join(PAGE, "index.html"), "utf8");
  const picture = await readFile(join(PAGE, "limits-picture.svg"), "utf8");
  const plans = Object.entries(PLAN_LIMITS).map(([plan, { perMinute, perDay }]) =>
    tableRow(plan, perMinute.toLocaleString("en"), perDay.toLocaleString("en")),
  );
  const own = tableRow("enterprise", "its own", "its own");
  return html
    .replace("<!-- picture -->", () => picture)
    .replace("<!-- plans -->", () => [...plans, own].join(""));
}

function tableRow(...cells: string[]): string {
  return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join("")}</tr>`;
}

async function bundleScript(): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [join(PAGE, "main.ts")],
    bundle: true,
    minify: true,
    write: false,
    format: "esm",
    target: "es2022",
    legalComments: "inline",
    logLevel: "error",
  });
  const [file] = outputFiles;
  if (file === undefined) throw new Error("esbuild made no file.");
  return file.contents;
}

/** Removes the reference to a source map, which is not served. */
function withoutSourceMap(text: string): string {
  return text.replace(/\/[/*]# sourceMappingURL=\S+(?: \*\/)?\s*$/, "");
}
