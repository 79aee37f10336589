import { readFile } from "node:fs/promises";
import { describe, expect, test } from "vitest";
import { buildPage } from "../../src/operator/build/site.ts";
import { ERROR_STATUS } from "../../src/worker/errors.ts";
import { openApiDocument } from "../../src/openapi/document.ts";
import { textOf } from "./page-text.ts";

const text = openApiDocument();
const document = JSON.parse(text);
const page = await buildPage(text);

const operations = Object.entries<any>(document.paths).flatMap(([path, item]) =>
  ["get", "delete"]
    .filter((method) => method in item)
    .map((method) => ({ path, method, item, ...item[method] })),
);

/** Returns the HTML of the page's section with this id. */
function section(id: string, html = page): string {
  return new RegExp(`<section id="${id}".*?</section>`, "s").exec(html)?.[0] ?? "";
}

/** Returns the rest of each id in the page that begins with `prefix`. */
function idsAfter(prefix: string, html = page): string[] {
  const ids = [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);
  return ids.filter((id) => id.startsWith(prefix)).map((id) => id.slice(prefix.length));
}

function resolved(value: any): any {
  return "$ref" in value
    ? value.$ref
        .split("/")
        .slice(1)
        .reduce((part: any, name: string) => part[name], document)
    : value;
}

/** Returns the text of Markdown whose only markup is inline code. */
function plain(markdown: string): string {
  return markdown.replaceAll("`", "").replace(/\s+/g, " ");
}

describe.each(operations)("$method $path", ({ operationId, method, path, item, ...operation }) => {
  const html = section(operationId);
  const shown = textOf(html).replace(/\s+/g, " ");

  test("has its method, path, summary and description", () => {
    expect(shown).toContain(`${method.toUpperCase()} /v1${path}`);
    expect(shown).toContain(operation.summary);
    for (const paragraph of operation.description.split("\n\n")) {
      expect(shown).toContain(plain(paragraph));
    }
  });

  test("has exactly the parameters of the document", () => {
    const parameters = [...item.parameters, ...(operation.parameters ?? [])].map(resolved);
    expect(idsAfter(`${operationId}.`)).toStrictEqual(parameters.map(({ name }) => name));
    for (const { description, example, in: place } of parameters) {
      expect(shown).toContain(plain(description));
      expect(shown).toContain(`Example: ${example}`);
      expect(shown).toContain(`in the ${place}`);
    }
  });

  test("has exactly the statuses of the document, each with every example", () => {
    const statuses = Object.keys(operation.responses);
    expect(idsAfter(`${operationId}-`).filter((id) => id !== "title")).toStrictEqual(statuses);
    const tabs = html.matchAll(new RegExp(`name="${operationId}-answer" value="(\\d+)"`, "g"));
    expect([...tabs].map(([, status]) => status)).toStrictEqual(statuses);
    for (const response of Object.values<any>(operation.responses).map(resolved)) {
      const { example, examples = {} } = response.content?.["application/json"] ?? {};
      const values = Object.values<any>(examples).map(({ value }) => value);
      for (const value of [...values, ...(example === undefined ? [] : [example])]) {
        expect(textOf(html)).toContain(JSON.stringify(value, undefined, 2));
      }
    }
  });
});

test("has exactly the fields of an order and of an error", () => {
  for (const name of ["Order", "Error"]) {
    const { properties, required = [] } = document.components.schemas[name];
    expect(idsAfter(`${name}.`)).toStrictEqual(Object.keys(properties));
    for (const [field, { description }] of Object.entries<any>(properties)) {
      const [row = ""] = new RegExp(`<div id="${name}.${field}">.*?</div>`, "s").exec(page) ?? [];
      expect(textOf(row)).toContain(plain(description));
      expect(row.includes("required")).toBe(required.includes(field));
    }
  }
});

test("has one row for each header, with the statuses of the responses that have it", () => {
  const { headers } = document.components;
  expect(idsAfter("header.")).toStrictEqual(Object.keys(headers));
  for (const [name, { description, example }] of Object.entries<any>(headers)) {
    const [row = ""] = new RegExp(`<tr id="header.${name}">.*?</tr>`, "s").exec(page) ?? [];
    expect(textOf(row)).toContain(plain(description));
    expect(textOf(row)).toContain(`Example: ${example}`);
  }
  const on = (name: string) =>
    new RegExp(`<tr id="header.${name}">.*?</tr>`, "s")
      .exec(page)?.[0]
      .match(/<td>([^<]*)<\/td>/)?.[1];
  expect(on("RateLimit")).toBe("every answer");
  expect(on("Retry-After")).toBe("429, 503");
  expect(on("ETag")).toBe("200, 304");
  expect(on("Sunset")).toBe("every answer, if set");
});

test("has one row for each error, under its code as anchor", () => {
  const errors = section("errors");
  const rows = [...errors.matchAll(/<tr id="([^"]+)">(.*?)<\/tr>/gs)];
  const codes = rows.map(([, code = ""]) => code);
  expect(codes.toSorted()).toStrictEqual(Object.keys(ERROR_STATUS).toSorted());
  for (const response of Object.values<any>(document.components.responses)) {
    const { examples } = response.content["application/json"];
    for (const [code, { value }] of Object.entries<any>(examples)) {
      const [, , row = ""] = rows.find(([, id]) => id === code) ?? [];
      expect(textOf(row)).toBe(`${code}${plain(value.message)}`);
    }
    expect(textOf(errors)).toContain(plain(response.description));
  }
});

test("has the generators of docs/api.md, each with its command and its files", async () => {
  const api = await readFile("docs/api.md", "utf8");
  const [generated = ""] = /^## Generated clients\n[^]*?^## /m.exec(api) ?? [];
  const blocks = [...generated.matchAll(/^```\w+\n([^]*?)\n```$/gm)].map(([, code = ""]) => code);
  expect(blocks).toHaveLength(9);
  for (const code of blocks) expect(textOf(section("clients"))).toContain(code);
});

test.each([
  ["a field", '"petId": {', '"animalId": {', "Order.animalId", "Order.petId"],
  ["a header", "Sunset", "Sundown", "header.Sundown", "header.Sunset"],
  ["a status", '"304": {', '"205": {', "listOrders-205", "listOrders-304"],
  [
    "a parameter",
    '"If-None-Match"',
    '"If-Match"',
    "listOrders.If-Match",
    "listOrders.If-None-Match",
  ],
  ["an error", "order_not_found", "order_unknown", "order_unknown", "order_not_found"],
])("follows %s that changes in the document", async (_, from, to, added, removed) => {
  const before = idsAfter("");
  const after = idsAfter("", await buildPage(text.replaceAll(from, to)));
  expect(before).toContain(removed);
  expect(after).toContain(added);
  expect(after).not.toContain(removed);
});

test("refuses a method that it cannot show", async () => {
  await expect(buildPage(text.replace('"delete": {', '"patch": {'))).rejects.toThrow(
    "cannot show patch",
  );
});

test("has unique ids, links that lead somewhere, and no Markdown left over", () => {
  const ids = idsAfter("");
  expect(ids.toSorted()).toStrictEqual([...new Set(ids)].toSorted());
  const links = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
  expect(links.filter((id) => !ids.includes(id ?? ""))).toStrictEqual([]);
  const prose = textOf(page.replace(/<pre.*?<\/pre>/gs, ""));
  expect(prose).not.toMatch(/`|\]\(|undefined|\[object/);
});
