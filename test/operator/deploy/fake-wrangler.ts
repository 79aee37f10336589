import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import { WranglerError, type WranglerOutput } from "../../../src/operator/wrangler.ts";
import { ACCOUNT } from "./fake-cloudflare.ts";

const OPTIONS = {
  remote: { type: "boolean" },
  json: { type: "boolean" },
  yes: { type: "boolean" },
  env: { type: "string" },
  command: { type: "string" },
  file: { type: "string" },
  timestamp: { type: "string" },
  bookmark: { type: "string" },
} as const;

interface ApiAnswer {
  readonly success: boolean;
  readonly errors: readonly { readonly code: number; readonly message: string }[];
  readonly result: unknown;
}

interface Import {
  readonly success: boolean;
  readonly error?: string;
  readonly filename: string;
  readonly upload_url: string;
}

/**
 * Does what wrangler does for its login, `d1 info`, `d1 execute --remote` and `d1 time-travel`: the same
 * calls of the API and the same errors. wrangler itself takes two seconds of the processor to start.
 * `fake-wrangler.node.test.ts` compares both.
 */
export async function runFakeWrangler(args: readonly string[]): Promise<WranglerOutput> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: OPTIONS,
    allowPositionals: true,
  });
  const [group, command, subcommand] = positionals;
  if (group === "auth") return print({ type: "api_token", token: apiToken() });
  if (group === "whoami") return print({ accounts: await callApi("GET", "/accounts") });
  const name = DATABASE_NAMES.find((known) => BINDINGS[known] === positionals.at(-1));
  const database = `/d1/database/${await databaseId(`store-orders-${values.env}-${name}`)}`;
  if (group !== "d1" || values.json !== true) throw new Error(`wrangler ${args.join(" ")}`);
  if (command === "execute" && values.command !== undefined) {
    return print(await callApi("POST", `${database}/query`, { sql: values.command }));
  }
  if (command === "info") return print(await callApi("GET", database));
  if (command === "execute" && values.file !== undefined) {
    await importFile(`${database}/import`, await readFile(values.file));
    return print([]);
  }
  if (command === "time-travel" && subcommand === "info") {
    const query = values.timestamp === undefined ? "" : `?timestamp=${values.timestamp}`;
    return print(await callApi("GET", `${database}/time_travel/bookmark${query}`));
  }
  if (command === "time-travel" && subcommand === "restore") {
    const query = `?bookmark=${values.bookmark}`;
    return print(await callApi("POST", `${database}/time_travel/restore${query}`));
  }
  throw new Error(`wrangler ${args.join(" ")}`);
}

async function databaseId(name: string): Promise<string> {
  const found = (await callApi("GET", "/d1/database?page=1&per_page=10")) as {
    name: string;
    uuid: string;
  }[];
  const database = found.find((candidate) => candidate.name === name);
  if (database === undefined) throw failure(`Couldn't find a D1 DB named '${name}'`);
  return database.uuid;
}

async function importFile(path: string, sql: Buffer): Promise<void> {
  const etag = createHash("md5").update(sql).digest("hex");
  const { filename, upload_url: url } = (await callApi("POST", path, {
    action: "init",
    etag,
  })) as Import;
  await fetch(url, { method: "PUT", body: new Uint8Array(sql) });
  await callApi("POST", path, { action: "ingest", etag, filename });
  const imported = (await callApi("POST", path, { action: "poll" })) as Import;
  if (!imported.success) throw failure(imported.error ?? "");
}

function apiToken(): string {
  const token = process.env["CLOUDFLARE_API_TOKEN"];
  if (token) return token;
  throw failure("Not logged in. Please run `wrangler login` to authenticate.");
}

/** @param path below the account, except for the list of accounts. */
async function callApi(method: string, path: string, body?: object): Promise<unknown> {
  const { CLOUDFLARE_API_BASE_URL, CLOUDFLARE_ACCOUNT_ID } = process.env;
  const account = path === "/accounts" ? "" : `/accounts/${CLOUDFLARE_ACCOUNT_ID ?? ACCOUNT}`;
  const response = await fetch(`${CLOUDFLARE_API_BASE_URL}${account}${path}`, {
    method,
    headers: { Authorization: `Bearer ${apiToken()}` },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const { success, errors, result } = (await response.json()) as ApiAnswer;
  if (success) return result;
  throw failure(errors.map(({ code, message }) => `${message} [code: ${code}]`).join("\n"));
}

function print(value: unknown): WranglerOutput {
  return { stdout: JSON.stringify(value), stderr: "" };
}

function failure(message: string): WranglerError {
  return new WranglerError(message, { stdout: "", stderr: "" });
}
