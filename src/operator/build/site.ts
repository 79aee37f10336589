import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { build } from "esbuild";
import type { PageFacts } from "../../site/page/reference.ts";
import { type Contact, openApiDocument } from "../../openapi/document.ts";
import { CLIENT_PACKAGE } from "./client-package.ts";
import { machineReadableFiles } from "./machine-readable.ts";

const PAGE = join(import.meta.dirname, "../../site");
const API = join(import.meta.dirname, "../../../docs/api.md");
const BUNDLE = { bundle: true, write: false, format: "esm", logLevel: "error" } as const;

/** Returns the static files of the service by path: the reference page and machine-readable files. */
export async function siteFiles(contact?: Contact): Promise<Map<string, string | Uint8Array>> {
  const origin = publicOrigin();
  // `npm start` names its own address. A deployed page provokes no refusals.
  const isLocal = /^http:\/\/localhost(?::|$)/.test(origin);
  const [page, { outputFiles }] = await Promise.all([
    buildPage(openApiDocument(origin, contact), {
      // `npm run deploy` passes the var `LIST_READS` as an environment variable.
      hasNearReads: process.env["LIST_READS"] === "nearest",
      isLocal,
    }),
    build({
      ...BUNDLE,
      entryPoints: ["script/main.ts", "style.css"].map((name) => join(PAGE, name)),
      entryNames: "[name]",
      outdir: PAGE,
      minify: true,
      target: "es2022",
      legalComments: "inline",
      define: { IS_LOCAL: String(isLocal) },
    }),
  ]);
  const files = new Map<string, string | Uint8Array>([
    ...machineReadableFiles(origin, contact),
    ["index.html", page],
  ]);
  for (const { path, contents } of outputFiles) files.set(basename(path), contents);
  for (const name of ["favicon.svg", "_headers", "_redirects"]) {
    files.set(name, await readFile(join(PAGE, name)));
  }
  return files;
}

export async function buildPage(
  document: string,
  choices: Pick<PageFacts, "hasNearReads" | "isLocal">,
): Promise<string> {
  // Node cannot run JSX. So esbuild bundles the page's source, and Node imports it as a data URL.
  const { outputFiles } = await build({
    ...BUNDLE,
    entryPoints: [join(PAGE, "page", "page.tsx")],
    platform: "node",
    jsx: "automatic",
    jsxImportSource: "hono/jsx",
  });
  const program = Buffer.concat(outputFiles.map(({ contents }) => contents));
  const url = `data:text/javascript;base64,${program.toString("base64")}`;
  const { renderPage } = (await import(/* @vite-ignore */ url)) as {
    renderPage: (facts: PageFacts) => Promise<string>;
  };
  return renderPage({
    document,
    ...choices,
    limitsPicture: await readFile(join(PAGE, "page", "limits.svg"), "utf8"),
    generatedClient: await documentedClient(),
    clientPackage: CLIENT_PACKAGE,
  });
}

/**
 * Returns the address in `PUBLIC_URL`, or "" if there is none (docs/operating.md, Deploying).
 *
 * @throws an Error for the operator unless the value is an origin like `https://orders.example`.
 */
export function publicOrigin(url = process.env["PUBLIC_URL"] ?? ""): string {
  if (url === "") return "";
  if (/^https?:/.test(url) && URL.parse(url)?.origin === url) return url;
  throw new Error(
    `PUBLIC_URL is ${JSON.stringify(url)}. Give scheme and host only, such as https://orders.example.`,
  );
}

/** Reads the code blocks of the section on generated clients in docs/api.md. */
export async function documentedClient(): Promise<PageFacts["generatedClient"]> {
  const [, section] = /^## Generated clients\n([^]*?)^## /m.exec(await readFile(API, "utf8")) ?? [];
  if (section === undefined) throw new Error(`${API} has no section "Generated clients".`);
  return [...section.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(([, fence = "", code = ""]) => ({
    fence,
    code,
  }));
}
