import { describe, expect, test } from "vitest";
import { machineReadableFiles } from "../../../src/operator/build/machine-readable.ts";
import { publicOrigin } from "../../../src/operator/build/site.ts";
import { ERROR_STATUS } from "../../../src/worker/errors.ts";
import { openApiDocument } from "../../../src/openapi/document.ts";

const ORIGIN = "https://orders.example";

describe.each(["", ORIGIN])("the files for programs at %j", (origin) => {
  const files = Object.fromEntries(machineReadableFiles(origin));
  const document = JSON.parse(files["openapi.json"] ?? "");

  test("include the OpenAPI document", () => {
    expect(files["openapi.json"]).toBe(openApiDocument(origin));
  });

  test("include an API catalog with links to the OpenAPI document and the reference page", () => {
    expect(JSON.parse(files[".well-known/api-catalog"] ?? "")).toStrictEqual({
      linkset: [
        {
          anchor: document.servers[0].url,
          "service-desc": [{ href: `${origin}/openapi.json`, type: "application/json" }],
          "service-doc": [{ href: `${origin}/`, type: "text/html" }],
        },
      ],
    });
  });

  test("include llms.txt with each operation, each error and the whole description", () => {
    const text = files["llms.txt"] ?? "";
    expect(text).toMatch(/^# Store Orders\n\n> Lists and cancels/);
    expect(text).not.toContain("Questions");
    for (const address of [`${origin}/openapi.json`, `${origin}/`]) {
      expect(text).toContain(`](${address})`);
    }
    for (const [path, { parameters: _parameters, ...methods }] of Object.entries<any>(
      document.paths,
    )) {
      for (const [method, { description }] of Object.entries<any>(methods)) {
        const heading = `### ${method.toUpperCase()} ${document.servers[0].url}${path}`;
        expect(text).toContain(`${heading}\n\n${description}\n`);
      }
    }
    for (const [code, status] of Object.entries(ERROR_STATUS)) {
      expect(text).toMatch(new RegExp(`^- ${status} \\(.*\`${code}\``, "m"));
    }
    const { description } = document.info;
    expect(text).toContain(description.slice(description.indexOf("## ")));
  });
});

test("the operator's address is in the files for programs", () => {
  const url = "https://shop.example/help";
  const files = Object.fromEntries(machineReadableFiles("", { url }));
  expect(JSON.parse(files["openapi.json"] ?? "").info.contact).toStrictEqual({ url });
  expect(files["llms.txt"]).toContain(`\n- Questions to the operator: ${url}\n`);
});

describe("PUBLIC_URL", () => {
  test.each(["", ORIGIN, "http://localhost:8787"])("%j is an origin", (url) => {
    expect(publicOrigin(url)).toBe(url);
  });

  test.each(["orders.example", `${ORIGIN}/`, `${ORIGIN}/v1`, "ftp://orders.example", "https://"])(
    "%j is refused",
    (url) => {
      expect(() => publicOrigin(url)).toThrow(
        `PUBLIC_URL is ${JSON.stringify(url)}. Give scheme and host only, such as ${ORIGIN}.`,
      );
    },
  );
});
