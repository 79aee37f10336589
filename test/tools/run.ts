import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { openApiDocument } from "../../src/openapi/document.ts";
import { buildAll } from "../../src/operator/build/program.ts";
import { prepareStore } from "../../src/operator/start/sample-store.ts";
import { INT64_MAX } from "../../src/rules/int64.ts";
import { findChromium, launchChromium } from "../site/chromium.ts";
import { bundleWorker, startServer } from "../support/server.ts";
import { temporaryFolder } from "../support/temporary-folder.ts";

// Imports the OpenAPI document into Postman, Bruno and Swagger UI, and sends the requests that they make
// of it to the service. Not part of `npm test`, because all are installed from the registry.

const IMPORTERS = ["@usebruno/converters@0.23.0", "openapi-to-postmanv2@6.3.3"];
const TOOLS = [...IMPORTERS, "swagger-ui-dist@5.35.0"];

/** A request of an imported collection, with placeholders for the server and for parameters. */
type Imported = { method: string; url: string; headers: { name: string; value: string }[] };

const folder = temporaryFolder("tools");
writeFileSync(join(folder, "package.json"), '{"private":true}');
const install = ["install", "--no-audit", "--no-fund", "--loglevel=error", ...TOOLS];
execFileSync("npm", install, { cwd: folder, stdio: ["ignore", "ignore", "inherit"] });
const store = join(folder, "store");
const [created] = await prepareStore(store, false);
await buildAll();
const script = await bundleWorker("src/worker/index.ts", folder);
await using server = await startServer(script, { store });
const secret = created!.key;
const document = openApiDocument(server.url);
await send(await importIntoPostman(), "1001");
await send(importIntoBruno(), "1002");
await trySwaggerUi();
console.log("Postman, Bruno and Swagger UI work with the document.");

/** Loads an installed tool, which has no types here. */
function load(name: string): any {
  return createRequire(join(folder, "package.json"))(name);
}

/** Sends imported requests as they are, after the reader has entered a key and an order id. */
async function send(requests: readonly Imported[], orderId: string): Promise<void> {
  assert(requests.length > 1);
  for (const { method, url, headers } of requests) {
    const sent = new Headers(headers.map(({ name, value }) => [name, value]));
    sent.set("Authorization", `Bearer ${secret}`);
    const address = url.replace("{{baseUrl}}", `${server.url}/v1`).replace(":orderId", orderId);
    const { ok, status } = await fetch(address, { method, headers: sent });
    assert(ok, `${method} ${address} is answered ${status}.`);
  }
}

async function importIntoPostman(): Promise<Imported[]> {
  const convert: any = promisify(load("openapi-to-postmanv2").convertV2);
  const { output, reason } = await convert({ type: "string", data: document }, {});
  assert(output, reason);
  return leavesOf(output[0].data.item).map(({ method, url, header }) => {
    const headers = header.filter(({ disabled }: any) => !disabled);
    const named = headers.map(({ key: name, value }: any) => ({ name, value }));
    return { method, url: [...url.host, ...url.path].join("/"), headers: named };
  });
}

function importIntoBruno(): Imported[] {
  const { items } = load("@usebruno/converters").openApiToBruno(JSON.parse(document));
  return leavesOf(items).map(({ headers, ...request }) => ({
    ...request,
    headers: headers.filter(({ enabled }: any) => enabled),
  }));
}

/** Lists the requests in nested folders of a collection. */
function leavesOf(all: readonly any[]): any[] {
  return all.flatMap(({ item, items = item, request }) => (items ? leavesOf(items) : [request]));
}

/** Cancels an order in Swagger UI, which must send every digit of its id, and no other header. */
async function trySwaggerUi(): Promise<void> {
  const executable = findChromium();
  assert(executable, "Install Chromium, or set CHROMIUM_PATH.");
  await using browser = await launchChromium(executable);
  const page = await browser.newPage();
  const html = { contentType: "text/html", body: '<div id="ui"></div>' };
  await page.route(`${server.url}/`, (route) => route.fulfill(html));
  await page.route(`${server.url}/openapi.json`, (route) => route.fulfill({ body: document }));
  await page.goto(`${server.url}/`);
  const swaggerUi = join(folder, "node_modules/swagger-ui-dist/swagger-ui-bundle.js");
  await page.addScriptTag({ path: swaggerUi });
  const content = `const ui = SwaggerUIBundle({ url: "/openapi.json", dom_id: "#ui",
    onComplete: () => ui.preauthorizeApiKey("apiKey", "${secret}") });`;
  await page.addScriptTag({ content });
  const operation = page.locator(".opblock-delete");
  await operation.locator(".opblock-summary-control").click();
  const first = operation.locator("tr[data-param-name]").first();
  assert.equal(await first.getAttribute("data-param-name"), "orderId");
  await operation.getByRole("button", { name: "Try it out" }).click();
  await first.locator("input").fill(String(INT64_MAX));
  const answering = page.waitForResponse((answer) => answer.request().method() === "DELETE");
  await operation.getByRole("button", { name: "Execute" }).click();
  const answer = await answering;
  const sent = answer.request();
  const found = [answer.status(), sent.url(), sent.headers()["x-request-id"]];
  assert.deepEqual(found, [204, `${server.url}/v1/store/orders/${INT64_MAX}`, undefined]);
}
