import { expect, onTestFinished, test, vi } from "vitest";
import { openApiDocument } from "../../src/openapi/document.ts";
import { buildPage, siteFiles } from "../../src/operator/build/site.ts";
import { textOf } from "./page-text.ts";

const text = openApiDocument();
const DEPLOYED = { hasNearReads: false, isLocal: false };
const files = await siteFiles({ email: "orders@shop.example" });
const page = String(files.get("index.html"));

/** Lists what stands under a name, anywhere in a part of a document. */
function valuesOf(part: object, name: string): any[] {
  const found: unknown[] = [];
  JSON.stringify(part, (key, value) => {
    if (key === name) found.push(value);
    return value;
  });
  return found;
}

const plain = (markdown: string) => markdown.replaceAll("`", "").replace(/\s+/g, " ");
const anchorsIn = (html: string) => [...html.matchAll(/ id="([^"]+)"/g)].map(([, id = ""]) => id);

/** The parts whose texts a reader needs. */
function partsOf({ paths, components }: any) {
  const { parameters, headers, responses, schemas } = components;
  const fields = [schemas.Order.properties, schemas.Error.properties];
  return [paths, parameters, headers, responses, fields];
}

test("the page shows everything in a changed document", async () => {
  const source = text
    .replaceAll('"petId": {', '"animalId": {')
    .replaceAll("Sunset", "Sundown")
    .replaceAll('"304": {', '"205": {')
    .replaceAll('"If-None-Match"', '"If-Match"')
    .replaceAll("order_not_found", "order_unknown");
  const html = await buildPage({ ...DEPLOYED, document: source });
  const anchors =
    "listOrders-200.animalId getQuota-200.ban.endsAt header.Sundown listOrders-205 listOrders.If-Match listOrders.X-Request-Id order_unknown";
  expect(anchorsIn(html)).toEqual(expect.arrayContaining(anchors.split(" ")));
  const parts = partsOf(JSON.parse(source));
  const examples = ["example", "value"].flatMap((name) => valuesOf(parts, name));
  const texts = [
    ...["summary", "description"].flatMap((name) => valuesOf(parts, name)),
    ...examples.map((one) => (typeof one === "object" ? JSON.stringify(one, undefined, 2) : one)),
  ];
  const shown = plain(textOf(html));
  const paragraphs = texts.flatMap((one) => String(one).split("\n\n"));
  for (const paragraph of paragraphs) expect(shown).toContain(plain(paragraph));
  // Of several errors with one status, the first is the example.
  const [errors = ""] = /<table class="reference-table errors">.*?<\/table>/s.exec(html) ?? [];
  expect(textOf(errors)).toContain("The list has another entity tag");
});

test("llms.txt has the meaning of each operation, parameter, answer, header and field", () => {
  const llms = String(files.get("llms.txt"));
  const meanings = valuesOf(partsOf(JSON.parse(text)), "description");
  const names = ["X-RateLimit-Reset", "If-None-Match", "304", "412", "shipDate"];
  const items = names.map((name) => `- \`${name}\``);
  for (const words of [...meanings, ...items]) expect(llms).toContain(words);
});

test("the page has the numbers of plans, windows, strikes and bans", () => {
  const [limits = ""] = /<section id="limits".*?<\/section>/s.exec(page) ?? [];
  const shown = textOf(limits.replaceAll(/<(td|th|text)/g, " <$1")).replace(/\s+/g, " ");
  for (const row of ["free 60 1,000", "pro 300 10,000", "business 1,000 100,000"]) {
    expect(shown).toContain(row);
  }
  expect(shown).toContain(
    "Every refusal after the first 10 seconds of a wait is a strike. A key is banned if it collects as many strikes within 60 seconds as its limit per minute, but at least 60 and at most 1,000.",
  );
  expect(shown).not.toMatch(/\{\w/);
});

test("the page says that lists can be out of date only with near reads", async () => {
  expect(page).not.toContain("a second or two old");
  const near = await buildPage({ ...DEPLOYED, document: text, hasNearReads: true });
  expect(near).toContain("A list may be a second or two old");
});

test("only the page of npm start can provoke a 429 or a ban", async () => {
  vi.stubEnv("PUBLIC_URL", "http://localhost:8787");
  onTestFinished(() => void vi.unstubAllEnvs());
  const local = await siteFiles();
  for (const [name, trigger] of [
    ["index.html", 'id="trigger-limit"'],
    ["main.js", "requests admitted"],
  ] as const) {
    const read = (built: typeof files) => Buffer.from(built.get(name) ?? "").toString();
    expect(read(local)).toContain(trigger);
    expect(read(files)).not.toContain(trigger);
  }
});

test("the page has unique ids, links that lead somewhere, the contact, and no Markdown", () => {
  const ids = anchorsIn(page);
  expect(ids.toSorted()).toStrictEqual([...new Set(ids)].toSorted());
  const links = [...page.matchAll(/ href="#([^"]+)"/g)].map(([, id]) => id);
  expect(links.filter((id) => !ids.includes(id ?? ""))).toStrictEqual([]);
  expect(page.match(/ href="mailto:orders@shop\.example"/g)).toHaveLength(2);
  expect(textOf(page.replace(/<pre.*?<\/pre>/gs, ""))).not.toMatch(/`|\]\(|undefined|\[object/i);
});

test("the page stays under 100 KiB with everything it loads", () => {
  const loaded = [...page.matchAll(/<(?:link|script)[^>]* (?:href|src)="\/([^"]+)"/g)];
  const names = ["index.html", ...loaded.map(([, name = ""]) => name)];
  expect(names).toHaveLength(4);
  const sizes = names.map((name) => Buffer.from(files.get(name) ?? "").length);
  expect(sizes.reduce((sum, size) => sum + size)).toBeLessThan(100 * 1_024);
});
