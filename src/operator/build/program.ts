import { join } from "node:path";
import { type Command, InvalidArgumentError } from "commander";
import type { Contact } from "../../openapi/document.ts";
import { createProgram } from "../command-line.ts";
import { writeFolder } from "../replace-file.ts";
import { SITE_FOLDER } from "../wrangler.ts";
import { CLIENT_PACKAGE, packClient } from "./client-package.ts";
import { siteFiles } from "./site.ts";

/** The output folder: static files in `site`, the client in `client`. */
const DIST = join(import.meta.dirname, "../../../dist");

export function buildProgram(): Command {
  return createProgram(
    "npm run build --",
    "Build the reference page, openapi.json and the client's package.",
  )
    .option("--contact <address>", "the operator's email address or URL, for callers", parseContact)
    .action(({ contact }: { readonly contact?: Contact }) => buildAll(contact));
}

export async function buildAll(contact?: Contact): Promise<void> {
  const site = await siteFiles(contact);
  site.set(CLIENT_PACKAGE, await packClient(join(DIST, "client")));
  await writeFolder(process.env[SITE_FOLDER] ?? join(DIST, "site"), site);
}

function parseContact(text: string): Contact {
  if (/^[^@\s:]+@[^@\s:]+$/.test(text)) return { email: text };
  if (URL.parse(text)?.protocol === "https:") return { url: text };
  throw new InvalidArgumentError(
    "Expected an email address or URL such as orders@shop.example or https://shop.example/help.",
  );
}
