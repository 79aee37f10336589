import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
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
  tag: { type: "string" },
  message: { type: "string" },
  outdir: { type: "string" },
  "dry-run": { type: "boolean" },
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
 * A fake of wrangler's commands for the login, imports and uploads. Makes the same changes through
 * the API and throws the same errors. The real wrangler takes two seconds of processor time to start. `fake-wrangler.node.test.ts` and `deploy.node.test.ts` compare the fake
 * with the real wrangler.
 */
export async function runFakeWrangler(
  args: readonly string[],
  options: { readonly env?: NodeJS.ProcessEnv } = {},
): Promise<WranglerOutput> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: OPTIONS,
    allowPositionals: true,
  });
  const [group, command] = positionals;
  if (group === "auth") return print({ type: "api_token", token: apiToken() });
  const script = `/workers/scripts/store-orders-${values.env}`;
  if (group === "deploy" && values["dry-run"] === true) return print("");
  if (group === "deploy") {
    const form = await firstVersion(`store-orders-${values.env}`, values);
    return print(await callApi("PUT", script, form));
  }
  if (group === "triggers") {
    await callApi("PUT", `${script}/schedules`, [{ cron: "23 * * * *" }]);
    return print(await callApi("POST", `${script}/subdomain`, { enabled: true }));
  }
  if (group === "versions" && command === "upload") {
    const version = await uploadVersion(script, values);
    const report = options.env?.["WRANGLER_OUTPUT_FILE_PATH"] ?? "";
    await writeFile(report, JSON.stringify({ type: "version-upload", version_id: version }));
    return print("");
  }
  const name = DATABASE_NAMES.find((known) => BINDINGS[known] === positionals.at(-1));
  const database = `/d1/database/${await databaseId(`store-orders-${values.env}-${name}`)}`;
  const isRemoteExecution = group === "d1" && command === "execute" && values.remote === true;
  if (isRemoteExecution && values.command !== undefined) {
    return print(await callApi("POST", `${database}/query`, { sql: values.command }));
  }
  if (group !== "d1" || values.json !== true) throw new Error(`wrangler ${args.join(" ")}`);
  if (isRemoteExecution && values.file !== undefined) {
    await importFile(`${database}/import`, await readFile(values.file));
    return print([]);
  }
  throw new Error(`wrangler ${args.join(" ")}`);
}

interface Label {
  readonly tag?: string;
  readonly message?: string;
}

/** Uploads a version with the same bindings as the last version. */
async function uploadVersion(script: string, label: Label): Promise<string> {
  const { bindings } = (await callApi("GET", `${script}/settings`)) as { bindings: object[] };
  const form = toForm(bindings, label);
  return ((await callApi("POST", `${script}/versions`, form)) as { id: string }).id;
}

async function firstVersion(worker: string, label: Label): Promise<FormData> {
  const bindings = DATABASE_NAMES.map(async (name) => ({
    name: BINDINGS[name],
    type: "d1",
    id: await databaseId(`${worker}-${name}`),
  }));
  return toForm(await Promise.all(bindings), label, { new_tag: "v1" });
}

function toForm(bindings: readonly object[], { tag, message }: Label, migrations?: object) {
  const annotations = { "workers/tag": tag, "workers/message": message };
  const form = new FormData();
  form.set("metadata", JSON.stringify({ bindings, annotations, migrations }));
  return form;
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

/** Calls Cloudflare's API below the account. */
async function callApi(method: string, path: string, body?: object): Promise<unknown> {
  const { CLOUDFLARE_API_BASE_URL, CLOUDFLARE_ACCOUNT_ID } = process.env;
  const account = `/accounts/${CLOUDFLARE_ACCOUNT_ID ?? ACCOUNT}`;
  const response = await fetch(`${CLOUDFLARE_API_BASE_URL}${account}${path}`, {
    method,
    headers: { Authorization: `Bearer ${apiToken()}` },
    ...(body !== undefined && { body: body instanceof FormData ? body : JSON.stringify(body) }),
  });
  const { success, errors, result } = (await response.json()) as ApiAnswer;
  if (success) return result;
  throw failure(errors.map(({ code, message }) => `${message} [code: ${code}]`).join("\n"));
}

function print(value: unknown): WranglerOutput {
  return { stdout: `${JSON.stringify(value, undefined, 2)}\n`, stderr: "" };
}

function failure(message: string): WranglerError {
  return new WranglerError(message, { stdout: "", stderr: "" });
}
