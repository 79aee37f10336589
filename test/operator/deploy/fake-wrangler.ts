import { readFile, writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { WranglerOutput } from "../../../src/operator/wrangler.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { ApiError } from "./route.ts";

const OPTIONS = ["env", "tag", "message", "file"].map(
  (name) => [name, { type: "string" }] as const,
);

/**
 * Makes the same API calls and throws the same errors as wrangler, which takes two seconds to
 * start. `remote-commands.node.test.ts` and `deploy.node.test.ts` run the real one.
 */
export async function runFakeWrangler(
  args: readonly string[],
  variables: NodeJS.ProcessEnv = {},
): Promise<WranglerOutput> {
  const options = Object.fromEntries(OPTIONS);
  const parsed = parseArgs({ args: [...args], options, strict: false, allowPositionals: true });
  const { env, tag, message, file, location, jurisdiction } = parsed.values as Record<
    string,
    string
  >;
  const [command, action, ...rest] = parsed.positionals;
  const script = `/workers/scripts/store-orders-${env}`;
  if (parsed.values["dry-run"] === true) return print("");
  const token = process.env["CLOUDFLARE_API_TOKEN"];
  if (!token) throw new Error("Not logged in. Please run `wrangler login` to authenticate.");
  const upload = async (method: string, path: string, bindings: readonly object[]) => {
    const annotations = { "workers/tag": tag, "workers/message": message };
    const { id } = (await call(method, path, { bindings, annotations })) as { id: string };
    const report = JSON.stringify({ type: command, version_id: id });
    await writeFile(variables["WRANGLER_OUTPUT_FILE_PATH"] ?? "", report);
  };
  const databaseId = async (database = "") => {
    const name = `store-orders-${env}-${database}`;
    const found = (await call("GET", `/d1/database?name=${name}`)) as Record<string, string>[];
    return found.find((each) => each["name"] === name)?.["uuid"];
  };
  if (command === "auth") return print({ type: "api_token", token });
  if (command === "deploy") {
    const bindings = DATABASE_NAMES.map(async (name) => {
      return { name: BINDINGS[name], type: "d1", id: await databaseId(name) };
    });
    await upload("PUT", script, await Promise.all(bindings));
  } else if (command === "versions" && action === "upload") {
    // The fake does not read wrangler.toml, so it copies the bindings of the last version.
    const { bindings } = (await call("GET", `${script}/settings`)) as { bindings: object[] };
    await upload("POST", `${script}/versions`, bindings);
  } else if (command === "versions") {
    const versions = rest.map((spec) => {
      const [version_id, percentage = ""] = spec.split("@");
      return { version_id, percentage: Number.parseInt(percentage, 10) };
    });
    const annotations = { "workers/message": message };
    const deployment = { versions, annotations, code_update_strategy: { mode: "immediate" } };
    await call("POST", `${script}/deployments`, deployment);
  } else if (action === "create") {
    const body = { name: rest[0], primary_location_hint: location, jurisdiction };
    await call("POST", "/d1/database", body);
  } else if (command === "triggers") {
    await call("PUT", `${script}/schedules`, [{ cron: "23 * * * *" }]);
    await call("POST", `${script}/subdomain`, { enabled: true });
  } else {
    const name = DATABASE_NAMES.find((known) => BINDINGS[known] === rest[0]);
    const sql = await readFile(file ?? "");
    await call("POST", `/d1/database/${await databaseId(name)}/import`, sql);
  }
  return print([]);
}

async function call(method: string, path: string, body?: object): Promise<unknown> {
  return FakeCloudflare.current.call(method, path, body).catch((error) => {
    if (!(error instanceof ApiError)) throw error;
    throw new Error(`${error.message} [code: ${error.code}]`, { cause: error });
  });
}

function print(value: unknown): WranglerOutput {
  return { stdout: `${JSON.stringify(value, undefined, 2)}\n`, stderr: "" };
}
