import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { WranglerOutput } from "../../../src/operator/wrangler.ts";
import { ACCOUNT } from "./fake-cloudflare.ts";

const TEXT = { type: "string" } as const;
const OPTIONS = { env: TEXT, tag: TEXT, message: TEXT, file: TEXT, outdir: TEXT };

/**
 * Makes the same API calls and throws the same errors as wrangler, which takes two seconds to
 * start. `remote-commands.node.test.ts` and `deploy.node.test.ts` run the real one.
 */
export async function runFakeWrangler(
  args: readonly string[],
  { env: variables = {} }: { readonly env?: NodeJS.ProcessEnv } = {},
): Promise<WranglerOutput> {
  const { values, positionals } = parseArgs({
    args: [...args],
    options: OPTIONS,
    strict: false,
    allowPositionals: true,
  });
  const { env, tag, message, file } = values as Record<string, string>;
  const worker = `store-orders-${env}`;
  const script = `/workers/scripts/${worker}`;
  const name = DATABASE_NAMES.find((known) => BINDINGS[known] === positionals[2]);
  const upload = (bindings: readonly object[], migrations?: object) => {
    const annotations = { "workers/tag": tag, "workers/message": message };
    const form = new FormData();
    form.set("metadata", JSON.stringify({ bindings, annotations, migrations }));
    return form;
  };
  switch (positionals.slice(0, 2).join(" ")) {
    case "auth token":
      return print({ type: "api_token", token: apiToken() });
    case "deploy": {
      if (values["dry-run"] === true) return print("");
      const bindings = DATABASE_NAMES.map(async (database) => ({
        name: BINDINGS[database],
        type: "d1",
        id: await databaseId(`${worker}-${database}`),
      }));
      const form = upload(await Promise.all(bindings), { new_tag: "v1" });
      return print(await callApi("PUT", script, form));
    }
    case "versions upload": {
      // The fake does not read wrangler.toml, so it copies the bindings of the last version.
      const { bindings } = (await callApi("GET", `${script}/settings`)) as { bindings: object[] };
      const uploaded = await callApi("POST", `${script}/versions`, upload(bindings));
      const { id } = uploaded as { id: string };
      const report = JSON.stringify({ type: "version-upload", version_id: id });
      await writeFile(variables["WRANGLER_OUTPUT_FILE_PATH"] ?? "", report);
      return print("");
    }
    case "triggers deploy":
      await callApi("PUT", `${script}/schedules`, [{ cron: "23 * * * *" }]);
      return print(await callApi("POST", `${script}/subdomain`, { enabled: true }));
    case "d1 execute": {
      const id = await databaseId(`${worker}-${name}`);
      await importFile(`/d1/database/${id}/import`, await readFile(file ?? ""));
      return print([]);
    }
    default:
      throw new Error(`wrangler ${args.join(" ")}`);
  }
}

async function databaseId(name: string): Promise<string> {
  type Found = Record<"name" | "uuid", string>[];
  const found = (await callApi("GET", "/d1/database?page=1&per_page=10")) as Found;
  const database = found.find((candidate) => candidate.name === name);
  if (database !== undefined) return database.uuid;
  throw new Error(`Couldn't find a D1 DB named '${name}'`);
}

async function importFile(path: string, sql: Buffer): Promise<void> {
  const etag = createHash("md5").update(sql).digest("hex");
  const call = async (body: object) =>
    (await callApi("POST", path, body)) as Record<string, string> & { success: boolean };
  const { filename, upload_url: url = "" } = await call({ action: "init", etag });
  await fetch(url, { method: "PUT", body: new Uint8Array(sql) });
  await call({ action: "ingest", etag, filename });
  const imported = await call({ action: "poll" });
  if (!imported.success) throw new Error(imported["error"]);
}

function apiToken(): string {
  const token = process.env["CLOUDFLARE_API_TOKEN"];
  if (token) return token;
  throw new Error("Not logged in. Please run `wrangler login` to authenticate.");
}

async function callApi(method: string, path: string, body?: object): Promise<unknown> {
  const { CLOUDFLARE_API_BASE_URL, CLOUDFLARE_ACCOUNT_ID } = process.env;
  const account = `/accounts/${CLOUDFLARE_ACCOUNT_ID ?? ACCOUNT}`;
  const response = await fetch(`${CLOUDFLARE_API_BASE_URL}${account}${path}`, {
    method,
    headers: { Authorization: `Bearer ${apiToken()}` },
    ...(body !== undefined && { body: body instanceof FormData ? body : JSON.stringify(body) }),
  });
  const { success, errors, result } = (await response.json()) as {
    readonly success: boolean;
    readonly errors: readonly { readonly code: number; readonly message: string }[];
    readonly result: unknown;
  };
  if (success) return result;
  throw new Error(errors.map(({ code, message }) => `${message} [code: ${code}]`).join("\n"));
}

function print(value: unknown): WranglerOutput {
  return { stdout: `${JSON.stringify(value, undefined, 2)}\n`, stderr: "" };
}
