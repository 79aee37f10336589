import { afterEach, expect, test, vi } from "vitest";
import { machineReadableFiles } from "../../../src/operator/build/machine-readable.ts";
import { siteFiles } from "../../../src/operator/build/site.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";
import { DAY_MS } from "../../support/clock.ts";

const ORIGIN = "https://orders.example";

afterEach(() => vi.unstubAllEnvs());

test.each(["", ORIGIN])("the files for programs at %j lead to the whole reference", (origin) => {
  const files = machineReadableFiles(origin);
  expect(files["openapi.json"]).toBe(openApiDocument(origin));
  const { servers, paths, info } = JSON.parse(files["openapi.json"] ?? "");
  const [{ url }] = servers;
  expect(JSON.parse(files[".well-known/api-catalog"] ?? "")).toStrictEqual({
    linkset: [
      {
        anchor: url,
        "service-desc": [{ href: `${origin}/openapi.json`, type: "application/json" }],
        "service-doc": [{ href: `${origin}/`, type: "text/html" }],
      },
    ],
  });
  const text = files["llms.txt"] ?? "";
  for (const [path, { parameters: _, ...methods }] of Object.entries<any>(paths)) {
    for (const [method, { description }] of Object.entries<any>(methods)) {
      expect(text).toContain(`## ${method.toUpperCase()} ${url}${path}\n\n${description}\n`);
    }
  }
  expect(text).not.toMatch(/undefined|\[object/);
  expect(text, "what a field says beside its type").toContain("Units ordered.");
  expect(text).toContain(info.description.slice(info.description.indexOf("## ")));
});

test("the operator's address is in the files for programs", () => {
  const url = "https://shop.example/help";
  const files = machineReadableFiles("", { url });
  expect(JSON.parse(files["openapi.json"] ?? "").info.contact).toStrictEqual({ url });
  expect(files["llms.txt"]).toContain(`\n- Questions to the operator: ${url}\n`);
  const path = ".well-known/security.txt";
  const [, expires = ""] =
    /^Contact: https:\/\/shop\.example\/help\nExpires: (.*)\n$/.exec(files[path] ?? "") ?? [];
  const days = (new Date(expires).getTime() - Date.now()) / DAY_MS;
  expect(days).toBeGreaterThan(363);
  expect(days).toBeLessThan(365);
  const byMail = machineReadableFiles(ORIGIN, { email: "o@shop.example" });
  expect(byMail[path]).toMatch(/^Contact: mailto:o@shop\.example\n/);
  expect(byMail[path]).toContain(`\nCanonical: ${ORIGIN}/${path}\n`);
  expect(machineReadableFiles(ORIGIN)).not.toHaveProperty([path]);
});

test("the site has the page with its styles and script, and the files for programs", async () => {
  const names = "index.html main.js style.css favicon.svg _headers _redirects";
  const programs = Object.keys(machineReadableFiles(""));
  const files = await siteFiles();
  expect([...files.keys()].toSorted()).toEqual([...names.split(" "), ...programs].toSorted());
  for (const content of files.values()) expect(content.length).toBeGreaterThan(0);
});

test("PUBLIC_URL is an origin, or refused", async () => {
  for (const url of [ORIGIN, "http://localhost:8787"]) {
    vi.stubEnv("PUBLIC_URL", url);
    expect((await siteFiles()).get("openapi.json")).toContain(`"url": "${url}/v1"`);
  }
  for (const url of ["orders.example", `${ORIGIN}/v1`, "ftp://orders.example"]) {
    vi.stubEnv("PUBLIC_URL", url);
    await expect(siteFiles()).rejects.toThrow(/Give scheme and host only/);
  }
});
