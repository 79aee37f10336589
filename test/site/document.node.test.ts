import { expect, test } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { buildPage, documentedClient } from "../../src/operator/build/site.ts";
import { textOf } from "./page-text.ts";

const text = openApiDocument();
const page = await buildPage(text);

/** What the page shows of a document: under each id of the page, the texts to find there. */
function contentOf(source: string): Map<string, string[]> {
  const document = JSON.parse(source);
  const { schemas, headers, responses } = document.components;
  const resolved = (value: any): any =>
    value.$ref
      ?.split("/")
      .slice(1)
      .reduce((part: any, name: string) => part[name], document) ?? value;
  const content = new Map<string, string[]>();
  const statusesOf: Record<string, string[]> = {};
  for (const [path, { parameters: shared, ...methods }] of Object.entries<any>(document.paths)) {
    for (const [method, operation] of Object.entries<any>(methods)) {
      const { operationId, summary, description, parameters = [] } = operation;
      const answers = Object.entries<any>(operation.responses);
      const examples = answers.flatMap(([, answer]) => {
        const { example, examples: named = {} } =
          resolved(answer).content?.["application/json"] ?? {};
        const values = Object.values<any>(named).map(({ value }) => value);
        return [example, ...values].filter((value) => value !== undefined);
      });
      content.set(operationId, [
        `${method.toUpperCase()} /v1${path}`,
        summary,
        ...description.split("\n\n"),
        ...examples.map((value) => JSON.stringify(value, undefined, 2)),
      ]);
      for (const { name, in: place, ...rest } of [...shared, ...parameters].map(resolved)) {
        const texts = [`in the ${place}`, rest.description, `Example: ${rest.example}`];
        content.set(`${operationId}.${name}`, texts);
      }
      for (const [status, answer] of answers) {
        content.set(`${operationId}-${status}`, [status]);
        for (const name of Object.keys(resolved(answer).headers)) {
          statusesOf[name] = [...new Set(statusesOf[name]).add(status)].toSorted();
        }
      }
    }
  }
  for (const name of ["Order", "Error"]) {
    for (const [field, { description }] of Object.entries<any>(schemas[name].properties)) {
      content.set(`${name}.${field}`, [description]);
    }
  }
  for (const [name, { description, example, required }] of Object.entries<any>(headers)) {
    const isEverywhere = statusesOf[name]?.length === statusesOf["Link"]?.length;
    const statuses = required ? "every answer" : "every answer, if set";
    const on = isEverywhere ? statuses : statusesOf[name]?.join(", ");
    content.set(`header.${name}`, [description, `Example: ${example}${on}`]);
  }
  for (const { description, content: body } of Object.values<any>(responses)) {
    for (const [code, { value }] of Object.entries<any>(body["application/json"].examples)) {
      content.set(code, [value.message]);
      content.set("errors", [...(content.get("errors") ?? []), description]);
    }
  }
  return content;
}

/** Returns a text with single spaces and without Markdown's backticks. */
function plain(markdown: string): string {
  return markdown.replaceAll("`", "").replace(/\s+/g, " ");
}

function elementWith(id: string, html: string): string {
  const start = html.indexOf(` id="${id}"`);
  const name = /\w+$/.exec(html.slice(0, start))?.[0] ?? "";
  return html.slice(start - name.length - 1, html.indexOf(`</${name}>`, start));
}

function idsIn(html: string): string[] {
  return [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);
}

/** Lists the ids of parameters, answers, fields, headers and errors in the page. */
function documentedIds(html: string): string[] {
  const errors = [...html.matchAll(/<tr id="(\w+)"/g)].map(([, code = ""]) => code);
  return [...idsIn(html).filter((id) => /\.|-\d+$/.test(id)), ...errors];
}

test.each([
  ["the document", text],
  [
    "a changed document",
    text
      .replaceAll('"petId": {', '"animalId": {')
      .replaceAll("Sunset", "Sundown")
      .replaceAll('"304": {', '"205": {')
      .replaceAll('"If-None-Match"', '"If-Match"')
      .replaceAll("order_not_found", "order_unknown"),
  ],
])("shows everything in %s and nothing else", async (_, source) => {
  const html = await buildPage(source);
  const content = contentOf(source);
  const sections = ["listOrders", "cancelOrder", "errors"];
  expect([...documentedIds(html), ...sections].toSorted()).toStrictEqual(
    [...content.keys()].toSorted(),
  );
  for (const [id, texts] of content) {
    const shown = plain(textOf(elementWith(id, html)));
    for (const expected of texts) expect(shown).toContain(plain(expected));
  }
});

test("has the command and the files of the generated client in docs/api.md", async () => {
  const blocks = await documentedClient();
  expect(blocks).toHaveLength(3);
  for (const { code } of blocks) expect(textOf(elementWith("clients", page))).toContain(code);
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

test("has the oldest versions beside each sample that needs a recent JavaScript", () => {
  const samples = [...page.matchAll(/<pre.*?<\/pre>/gs)].map(([sample]) => textOf(sample));
  const recent = samples.filter((sample) => /\bsource\b.*=>/.test(sample));
  expect(recent.length).toBeGreaterThan(3);
  for (const sample of recent) expect(sample).toContain("// Needs Node 22, ");
});

test("has unique ids, links that lead somewhere, no Markdown and no reference to another text", () => {
  const ids = idsIn(page);
  expect(ids.toSorted()).toStrictEqual([...new Set(ids)].toSorted());
  const links = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
  expect(links.filter((id) => !ids.includes(id ?? ""))).toStrictEqual([]);
  const prose = textOf(page.replace(/<pre.*?<\/pre>/gs, ""));
  expect(prose).not.toMatch(/`|\]\(|undefined|\[object|this document|these headers/i);
});
