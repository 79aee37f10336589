import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import loadWabt from "wabt";
import type { Contact } from "../../openapi/document.ts";
import { createProgram } from "../command-line.ts";
import { writeFolder } from "../replace-file.ts";
import { SITE_FOLDER } from "../wrangler.ts";
import { CLIENT_PACKAGE, packClient } from "./client-package.ts";
import { siteFiles } from "./site.ts";

/** The output folder: static files in `site`, the Worker's WebAssembly in `wasm`, the client in `client`. */
const DIST = join(import.meta.dirname, "../../../dist");

const SOURCE = join(import.meta.dirname, "../../worker/orders/shorthand/expand-orders.wat");

/** Defines the command line of `npm run build`. */
export function buildProgram(): Command {
  return createProgram(
    "npm run build --",
    "Build the reference page, openapi.json, the client's package and the WebAssembly.",
  )
    .option("--contact <address>", "the operator's email address or URL, for callers", parseContact)
    .action(({ contact }: { readonly contact?: Contact }) => buildAll(contact));
}

/** Builds the files that the Worker needs besides its source: static files and WebAssembly. */
export async function buildAll(contact?: Contact): Promise<void> {
  const [site, client, module] = await Promise.all([
    siteFiles(contact),
    packClient(join(DIST, "client")),
    assembleExpansion(),
  ]);
  site.set(CLIENT_PACKAGE, client);
  await writeFolder(process.env[SITE_FOLDER] ?? join(DIST, "site"), site);
  await writeFolder(join(DIST, "wasm"), new Map([["expand-orders.wasm", module]]));
}

/** Assembles the WebAssembly module that expands shorthand, the compact text of orders, to JSON. */
export async function assembleExpansion(): Promise<Uint8Array<ArrayBuffer>> {
  const wabt = await loadWabt();
  const module = wabt.parseWat(SOURCE, await readFile(SOURCE, "utf8"));
  module.validate();
  return new Uint8Array(module.toBinary({}).buffer);
}

function parseContact(text: string): Contact {
  if (/^[^@\s:]+@[^@\s:]+$/.test(text)) return { email: text };
  if (URL.parse(text)?.protocol === "https:") return { url: text };
  throw new InvalidArgumentError(
    "Expected an email address or URL such as orders@shop.example or https://shop.example/help.",
  );
}
