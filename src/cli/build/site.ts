import { createRequire } from "node:module";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { build } from "esbuild";
import { openApiDocument } from "../../openapi/document.ts";
import { PLAN_LIMITS } from "../../rate-limit/plans.ts";

const PAGE = join(import.meta.dirname, "..", "..", "reference");
const VIEWER = dirname(createRequire(import.meta.url).resolve("swagger-ui-dist/package.json"));

/** The folder that wrangler.toml names under `[assets]`. */
const SITE = join(import.meta.dirname, "..", "..", "..", "dist", "site");

/**
 * Builds the static part of the service: the reference page, its viewer and the OpenAPI document.
 * Only files that have changed are written, each in one step, because a service may be serving them.
 */
export async function buildSite(): Promise<void> {
  const files = new Map<string, string | Uint8Array>([
    ["openapi.json", openApiDocument()],
    ["index.html", await page()],
    ["main.js", await script()],
  ]);
  for (const name of ["style.css", "viewer.css", "favicon.svg", "_headers"]) {
    files.set(name, await readFile(join(PAGE, name)));
  }
  for (const name of ["swagger-ui.css", "swagger-ui-bundle.js", "LICENSE", "NOTICE"]) {
    const target = name.startsWith("swagger-ui") ? name : `swagger-ui-${name}.txt`;
    files.set(target, withoutSourceMap(await readFile(join(VIEWER, name), "utf8")));
  }
  await writeSite(files);
}

async function writeSite(files: ReadonlyMap<string, string | Uint8Array>): Promise<void> {
  await mkdir(SITE, { recursive: true });
  const drafts = await mkdtemp(`${SITE}-`);
  try {
    for (const [name, content] of files) {
      const bytes = Buffer.from(content);
      const current = await readFile(join(SITE, name)).catch(() => null);
      if (current?.equals(bytes)) continue;
      await writeFile(join(drafts, name), bytes);
      await rename(join(drafts, name), join(SITE, name));
    }
  } finally {
    await rm(drafts, { recursive: true });
  }
  for (const name of await readdir(SITE)) {
    if (!files.has(name)) await rm(join(SITE, name), { recursive: true, force: true });
  }
}

async function page(): Promise<string> {
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

async function script(): Promise<Uint8Array> {
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

/** The map is not served: naming it would be a request for nothing. */
function withoutSourceMap(text: string): string {
  return text.replace(/\/[/*]# sourceMappingURL=\S+(?: \*\/)?\s*$/, "");
}
