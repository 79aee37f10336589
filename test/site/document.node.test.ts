import { gzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { buildPage, documentedClient, siteFiles } from "../../src/operator/build/site.ts";
import { textOf } from "./page-text.ts";

const text = openApiDocument();
const page = await buildPage(text);

/** Returns the anchors for the parameters, responses, fields, headers and errors of a document. */
function idsIn({ paths, components }: any): string[] {
  const { parameters, headers, responses, schemas } = components;
  const nameOf = ({ $ref, name }: any) => name ?? parameters[$ref.split("/").at(-1)].name;
  return [
    ...Object.values<any>(paths).flatMap(({ parameters: shared, ...methods }) =>
      Object.values<any>(methods).flatMap(
        ({ operationId, parameters: own = [], responses: by }) => [
          ...[...shared, ...own].map((one) => `${operationId}.${nameOf(one)}`),
          ...Object.keys(by).map((status) => `${operationId}-${status}`),
        ],
      ),
    ),
    ...["Order", "Error"].flatMap((name) =>
      Object.keys(schemas[name].properties).map((field) => `${name}.${field}`),
    ),
    ...Object.keys(headers).map((name) => `header.${name}`),
    ...Object.values<any>(responses).flatMap(({ content }) =>
      Object.keys(content["application/json"].examples),
    ),
  ];
}

/** Lists what stands under a name, anywhere in a part of a document. */
function valuesOf(part: any, name: string): any[] {
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([key, value]) => [
    ...(key === name ? [value] : []),
    ...valuesOf(value, name),
  ]);
}

function plain(markdown: string): string {
  return markdown.replaceAll("`", "").replace(/\s+/g, " ");
}

function anchorsIn(html: string): string[] {
  return [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);
}

/** The parts whose texts a reader needs. */
function partsOf({ paths, components }: any) {
  const { parameters, headers, responses, schemas } = components;
  const fields = [schemas.Order.properties, schemas.Error.properties];
  return [paths, parameters, headers, responses, fields];
}

test("shows everything in a changed document and nothing else", async () => {
  const source = text
    .replaceAll('"petId": {', '"animalId": {')
    .replaceAll("Sunset", "Sundown")
    .replaceAll('"304": {', '"205": {')
    .replaceAll('"If-None-Match"', '"If-Match"')
    .replaceAll("order_not_found", "order_unknown");
  const html = await buildPage(source);
  const document = JSON.parse(source);
  const errors = [...html.matchAll(/<tr id="(\w+)"/g)].map(([, code = ""]) => code);
  const ids = [...anchorsIn(html).filter((id) => /\.|-\d+$/.test(id)), ...errors];
  expect(ids.toSorted()).toStrictEqual(idsIn(document).toSorted());
  const parts = partsOf(document);
  const examples = ["example", "value"].flatMap((name) => valuesOf(parts, name));
  const texts = [
    ...["summary", "description"].flatMap((name) => valuesOf(parts, name)),
    ...examples.map((one) => (typeof one === "object" ? JSON.stringify(one, undefined, 2) : one)),
  ];
  const shown = plain(textOf(html));
  for (const one of texts) {
    for (const paragraph of String(one).split("\n\n")) expect(shown).toContain(plain(paragraph));
  }
});

test("llms.txt has the meaning of each operation, parameter, answer, header and field", async () => {
  const parts = partsOf(JSON.parse(text));
  const llms = String((await siteFiles()).get("llms.txt"));
  for (const meaning of valuesOf(parts, "description")) expect(llms).toContain(meaning);
  const names = ["X-RateLimit-Reset", "ETag", "If-None-Match", "304", "X-Request-Id", "shipDate"];
  for (const name of names) expect(llms).toContain(`- \`${name}\``);
});

test("has the command and the files of the generated client in docs/api.md", async () => {
  const blocks = await documentedClient();
  expect(blocks).toHaveLength(3);
  const [clients = ""] = /<section id="clients".*?<\/section>/s.exec(page) ?? [];
  for (const { code } of blocks) expect(textOf(clients)).toContain(code);
});

test("refuses a method that it cannot show", async () => {
  await expect(buildPage(text.replace('"delete": {', '"patch": {'))).rejects.toThrow(
    "PATCH cancelOrder",
  );
});

test("says that lists can be out of date only with near reads", async () => {
  expect(page).not.toContain("a second or two old");
  expect(await buildPage(text, true)).toContain("A list may be a second or two old");
});

test("has unique ids, links that lead somewhere, no Markdown and no reference to another text", () => {
  const ids = anchorsIn(page);
  expect(ids.toSorted()).toStrictEqual([...new Set(ids)].toSorted());
  const links = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
  expect(links.filter((id) => !ids.includes(id ?? ""))).toStrictEqual([]);
  const prose = textOf(page.replace(/<pre.*?<\/pre>/gs, ""));
  expect(prose).not.toMatch(/`|\]\(|undefined|\[object|this document|these headers/i);
});

test("stays under 100 KiB with everything it loads, and under 30 KiB as it is transferred", async () => {
  const files = await siteFiles({ email: "orders@shop.example" });
  const html = String(files.get("index.html"));
  const loaded = [...html.matchAll(/<(?:link|script)[^>]* (?:href|src)="\/([^"]+)"/g)];
  const names = ["index.html", ...loaded.map(([, name = ""]) => name)];
  expect(names.toSorted()).toStrictEqual([
    "console.css",
    "favicon.svg",
    "index.html",
    "main.js",
    "style.css",
  ]);
  const contents = names.map((name) => Buffer.from(files.get(name) ?? ""));
  const bytes = (parts: readonly Uint8Array[]) => parts.reduce((sum, part) => sum + part.length, 0);
  expect(bytes(contents)).toBeLessThan(100 * 1_024);
  expect(bytes(contents.map((content) => gzipSync(content)))).toBeLessThan(30 * 1_024);
});
