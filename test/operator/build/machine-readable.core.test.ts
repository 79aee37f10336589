import { expect, test, vi } from "vitest";
import { CLIENT_PACKAGE } from "../../../src/operator/build/client-package.ts";
import { machineReadableFiles } from "../../../src/operator/build/machine-readable.ts";
import { siteFiles } from "../../../src/operator/build/site.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { readDocument } from "../../../src/openapi/read-document.ts";

const ORIGIN = "https://orders.example";
const SECURITY = ".well-known/security.txt";

test("the files for programs name the address of the service", () => {
  const files = machineReadableFiles(ORIGIN);
  const { "openapi.json": document, "llms.txt": text, ...others } = files;
  expect(document).toBe(openApiDocument(ORIGIN));
  const { operations } = readDocument(JSON.parse(document));
  expect([...text.matchAll(/https:..orders\.example[^\s)]*/g)].flat()).toStrictEqual([
    ...operations.map(({ path }) => `${ORIGIN}/v1${path}`),
    ...["openapi.json", "", CLIENT_PACKAGE].map((path) => `${ORIGIN}/${path}`),
  ]);
  const page = { href: `${ORIGIN}/`, type: "text/html" };
  const described = { href: `${ORIGIN}/openapi.json`, type: "application/json" };
  const api = { anchor: `${ORIGIN}/v1`, "service-desc": [described], "service-doc": [page] };
  const catalog = `${JSON.stringify({ linkset: [api] }, undefined, 2)}\n`;
  expect(others).toStrictEqual({ ".well-known/api-catalog": catalog });
  for (const [name, content] of Object.entries(machineReadableFiles(""))) {
    expect(content).toBe(files[name as keyof typeof files]?.replaceAll(ORIGIN, ""));
  }
});

test("the operator's address is in the files for programs", () => {
  const url = "https://shop.example/help";
  vi.setSystemTime("2026-11-20T08:30:00Z");
  const files = machineReadableFiles("", { url });
  const byMail = machineReadableFiles(ORIGIN, { email: "o@shop.example" });
  expect(JSON.parse(files["openapi.json"]).info.contact).toStrictEqual({ url });
  expect(files["llms.txt"]).toContain(`\n- Questions to the operator: ${url}\n`);
  const expires = "Expires: 2027-11-19T08:30:00.000Z\n";
  expect([files[SECURITY], byMail[SECURITY]]).toStrictEqual([
    `Contact: ${url}\n${expires}`,
    `Contact: mailto:o@shop.example\n${expires}Canonical: ${ORIGIN}/${SECURITY}\n`,
  ]);
});

test("the site has the page with its styles and script, and the files for programs", async () => {
  const names = "index.html main.js style.css favicon.svg _headers _redirects";
  const programs = Object.keys(machineReadableFiles(""));
  const files = await siteFiles();
  expect([...files.keys()].toSorted()).toEqual([...names.split(" "), ...programs].toSorted());
  for (const reads of ["primary", "nearest"]) {
    vi.stubEnv("LIST_READS", reads);
    const isOld = String((await siteFiles()).get("index.html")).includes("a second or two old");
    expect(isOld, reads).toBe(reads === "nearest");
  }
});

test("PUBLIC_URL is an origin, or refused", async () => {
  vi.stubEnv("PUBLIC_URL", ORIGIN);
  expect((await siteFiles()).get("openapi.json")).toContain(`"url": "${ORIGIN}/v1"`);
  for (const url of ["orders.example", `${ORIGIN}/v1`, "ftp://orders.example"]) {
    vi.stubEnv("PUBLIC_URL", url);
    await expect(siteFiles()).rejects.toThrow(/Give scheme and host only/);
  }
});
