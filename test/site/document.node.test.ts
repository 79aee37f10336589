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

function textsIn(part: any): string[] {
  if (typeof part !== "object" || part === null) return [];
  const { summary = "", description = "", example, value = example, ...others } = part;
  const shown = typeof value === "object" ? JSON.stringify(value, undefined, 2) : String(value);
  const texts = [summary, ...description.split("\n\n"), ...(value === undefined ? [] : [shown])];
  return [...texts, ...Object.values(others).flatMap(textsIn)];
}

function descriptionsIn(part: any): string[] {
  if (typeof part !== "object" || part === null) return [];
  const { description, ...others } = part;
  const own = typeof description === "string" ? [description] : [];
  return [...own, ...Object.values(others).flatMap(descriptionsIn)];
}

function plain(markdown: string): string {
  return markdown.replaceAll("`", "").replace(/\s+/g, " ");
}

function anchorsIn(html: string): string[] {
  return [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);
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
  const { parameters, headers, responses, schemas } = document.components;
  const errors = [...html.matchAll(/<tr id="(\w+)"/g)].map(([, code = ""]) => code);
  const ids = [...anchorsIn(html).filter((id) => /\.|-\d+$/.test(id)), ...errors];
  expect(ids.toSorted()).toStrictEqual(idsIn(document).toSorted());
  const shown = plain(textOf(html));
  const fields = [schemas.Order.properties, schemas.Error.properties];
  for (const expected of textsIn([document.paths, parameters, headers, responses, fields])) {
    expect(shown).toContain(plain(expected));
  }
});

test("llms.txt has the meaning of each operation, parameter, answer, header and field", async () => {
  const { paths, components } = JSON.parse(text);
  const { parameters, headers, responses, schemas } = components;
  const fields = [schemas.Order.properties, schemas.Error.properties];
  const llms = String((await siteFiles()).get("llms.txt"));
  const names = ["X-RateLimit-Reset", "ETag", "If-None-Match", "304", "X-Request-Id", "shipDate"];
  for (const name of names) expect(llms).toContain(`- \`${name}\``);
  for (const meaning of descriptionsIn([paths, parameters, headers, responses, fields])) {
    expect(llms).toContain(meaning);
  }
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
