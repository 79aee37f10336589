import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { openApiDocument } from "../../src/openapi/document.ts";
import { findChromium, launchChromium } from "../site/chromium.ts";

// Tries the OpenAPI document in Swagger UI and in orval, a generator in the style of OpenAPI 3.0.
// Not part of `npm test`, because both are installed from the registry, with 100 MB.

const TOOLS = ["swagger-ui-dist@5.35.0", "orval@7.10.0", "typescript@5.9.3"];
const ORIGIN = "http://store.example";
const ID = "9007199254740993";

const folder = mkdtempSync(join(tmpdir(), "store-orders-tools-"));
try {
  writeFileSync(join(folder, "package.json"), '{"private":true}');
  run("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", ...TOOLS]);
  writeFileSync(join(folder, "openapi.json"), openApiDocument(ORIGIN));
  await trySwaggerUi();
  tryOrval();
  console.log("Swagger UI and orval work with the document.");
} finally {
  rmSync(folder, { recursive: true });
}

function run(command: string, args: readonly string[]): void {
  execFileSync(command, args, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
}

/** Cancels an order in Swagger UI, which must send every digit of its id, and no X-Request-Id. */
async function trySwaggerUi(): Promise<void> {
  const executable = findChromium();
  if (executable === undefined) throw new Error("Install Chromium, or set CHROMIUM_PATH.");
  const browser = await launchChromium(executable);
  try {
    const page = await browser.newPage();
    const files = join(folder, "node_modules", "swagger-ui-dist");
    await page.route(`${ORIGIN}/**`, async (route) => {
      const { pathname } = new URL(route.request().url());
      const name = basename(pathname) || "index.html";
      if (route.request().method() !== "GET") return route.fulfill({ status: 204 });
      if (name === "openapi.json") return route.fulfill({ path: join(folder, name) });
      if (name !== "swagger-initializer.js") return route.fulfill({ path: join(files, name) });
      return route.fulfill({
        contentType: "text/javascript",
        body: `onload = () => SwaggerUIBundle({ url: "/openapi.json", dom_id: "#swagger-ui" });`,
      });
    });
    await page.goto(`${ORIGIN}/`);
    const operation = page.locator(".opblock-delete");
    await operation.locator(".opblock-summary-control").click();
    await operation.getByRole("button", { name: "Try it out" }).click();
    await operation.locator('tr[data-param-name="orderId"] input').fill(ID);
    const sending = page.waitForRequest((request) => request.method() === "DELETE");
    await operation.getByRole("button", { name: "Execute" }).click();
    const sent = await sending;
    const isExact = sent.url() === `${ORIGIN}/v1/store/orders/${ID}`;
    if (!isExact || sent.headers()["x-request-id"]) {
      throw new Error(`Swagger UI sends ${sent.url()} with ${JSON.stringify(sent.headers())}.`);
    }
  } finally {
    await browser.close();
  }
}

/** Generates types, in which an error must have its codes. */
function tryOrval(): void {
  const bin = join(folder, "node_modules", ".bin");
  run(join(bin, "orval"), ["--input", "openapi.json", "--output", "api.ts", "--client", "fetch"]);
  writeFileSync(
    join(folder, "use.ts"),
    `import type { ConflictResponse } from "./api.js";
     export const error: ConflictResponse =
       { code: "order_already_shipped", status: 409, message: "" };
     export const status: 409 = error.status;`,
  );
  const options = "--strict --noEmit --module nodenext --lib es2022,dom use.ts";
  run(join(bin, "tsc"), options.split(" "));
  const isNever = /: never\b/.test(readFileSync(join(folder, "api.ts"), "utf8"));
  if (isNever) throw new Error("orval: never");
}
