import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import type { PageFacts } from "../../site/page/reference.ts";
import type { Contact } from "../../openapi/document.ts";
import { CLIENT_PACKAGE } from "./client-package.ts";
import { machineReadableFiles } from "./machine-readable.ts";

const PAGE = join(import.meta.dirname, "../../site");
const API = join(import.meta.dirname, "../../../docs/api.md");
const BUNDLE = { bundle: true, write: false, format: "esm", logLevel: "error" } as const;

/**
 * Returns the static files of the service by path: the reference page and machine-readable files, with
 * the address in `PUBLIC_URL`, if it is set. @throws an Error for the operator unless it is an origin.
 */
export async function siteFiles(contact?: Contact): Promise<Map<string, string | Uint8Array>> {
  const origin = process.env["PUBLIC_URL"] ?? "";
  if (origin !== "" && !(/^https?:/.test(origin) && URL.parse(origin)?.origin === origin)) {
    const expected = "Give scheme and host only, such as https://orders.example.";
    throw new Error(`PUBLIC_URL is ${JSON.stringify(origin)}. ${expected}`);
  }
  // `npm start` names its own address. A deployed page provokes no refusals.
  const isLocal = /^http:\/\/localhost(?::|$)/.test(origin);
  const files = machineReadableFiles(origin, contact);
  // `npm run deploy` passes the var `LIST_READS` as an environment variable.
  const hasNearReads = process.env["LIST_READS"] === "nearest";
  const [page, { outputFiles }] = await Promise.all([
    buildPage({ document: files["openapi.json"], hasNearReads, isLocal }),
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
  const copied = ["favicon.svg", "_headers", "_redirects"];
  return new Map<string, string | Uint8Array>([
    ...Object.entries(files),
    ["index.html", page],
    ...outputFiles.map(({ path, contents }) => [basename(path), contents] as const),
    ...copied.map((name) => [name, readFileSync(join(PAGE, name))] as const),
  ]);
}

export async function buildPage(own: Pick<PageFacts, "document" | "hasNearReads" | "isLocal">) {
  // Node cannot run JSX. So esbuild bundles the page's source, and Node imports it as a data URL.
  const { outputFiles } = await build({
    ...BUNDLE,
    entryPoints: [join(PAGE, "page", "page.tsx")],
    platform: "node",
    jsx: "automatic",
    jsxImportSource: "hono/jsx",
  });
  const program = Buffer.concat(outputFiles.map(({ contents }) => contents)).toString("base64");
  const { renderPage } = await import(/* @vite-ignore */ `data:text/javascript;base64,${program}`);
  const facts: PageFacts = {
    ...own,
    limitsPicture: readFileSync(join(PAGE, "page", "limits.svg"), "utf8"),
    generatedClient: documentedClient(),
    clientPackage: CLIENT_PACKAGE,
  };
  return (renderPage as (facts: PageFacts) => Promise<string>)(facts);
}

/** Reads the code blocks of the section on generated clients in docs/api.md. */
export function documentedClient(): PageFacts["generatedClient"] {
  const [, section] = /^## Generated clients\n([^]*?)^## /m.exec(readFileSync(API, "utf8")) ?? [];
  if (section === undefined) throw new Error(`${API} has no section "Generated clients".`);
  return [...section.matchAll(/^```(\w+)\n([^]*?)\n```$/gm)].map(([, fence = "", code = ""]) => ({
    fence,
    code,
  }));
}
