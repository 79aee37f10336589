import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { BINDINGS, DATABASE_NAMES } from "../../../src/operator/database/database.ts";
import type { WranglerOutput } from "../../../src/operator/wrangler.ts";
import { FakeCloudflare } from "./fake-cloudflare.ts";
import { ApiError } from "./route.ts";

/**
 * Makes the API call that matters of a wrangler command, and throws the same errors as wrangler, which
 * takes two seconds to start. `remote-commands.node.test.ts` and `deploy.node.test.ts` run the real one.
 */
export async function runFakeWrangler(args: readonly string[]): Promise<WranglerOutput> {
  const cloudflare = FakeCloudflare.current;
  const options = Object.fromEntries(
    ["env", "tag", "message", "file"].map((name) => [name, { type: "string" }] as const),
  );
  const parsed = parseArgs({ args: [...args], options, strict: false, allowPositionals: true });
  const values = parsed.values as Record<string, string>;
  const { env, tag, message, file = "", location, jurisdiction } = values;
  const [command = "", action = "", name = "", ...rest] = parsed.positionals;
  const token = process.env["CLOUDFLARE_API_TOKEN"];
  if (values["dry-run"]) return { stdout: "", stderr: "" };
  if (!token) throw new Error("Not logged in. Please run `wrangler login` to authenticate.");
  if (command === "auth") return { stdout: JSON.stringify({ token }), stderr: "" };

  const annotations = { "workers/tag": tag, "workers/message": message };
  const idOf = (database: string) => cloudflare.d1.find(`store-orders-${env}-${database}`).uuid;
  const version = () => ({
    bindings: DATABASE_NAMES.map((each) => ({ name: BINDINGS[each], type: "d1", id: idOf(each) })),
    annotations,
  });
  const deployment = () => ({
    versions: [name, ...rest].map((spec) => {
      return { version_id: spec.split("@")[0], percentage: Number(/(\d+)%$/.exec(spec)?.[1]) };
    }),
    annotations,
    code_update_strategy: { mode: "immediate" },
  });
  const script = `/workers/scripts/store-orders-${env}`;
  const calls: Readonly<Record<string, () => [method: string, path: string, body: object]>> = {
    "deploy ": () => ["PUT", script, version()],
    "versions upload": () => ["POST", `${script}/versions`, version()],
    "versions deploy": () => ["POST", `${script}/deployments`, deployment()],
    "triggers deploy": () => ["PUT", `${script}/schedules`, [{ cron: "23 * * * *" }]],
    "d1 create": () => [
      "POST",
      "/d1/database",
      { name, primary_location_hint: location, jurisdiction },
    ],
    "d1 execute": () => [
      "POST",
      `/d1/database/${idOf(name.toLowerCase())}/import`,
      readFileSync(file),
    ],
  };
  const [method, path, body] = calls[`${command} ${action}`]!();
  const result = await cloudflare.call(method, path, body).catch((cause) => {
    if (!(cause instanceof ApiError)) throw cause;
    throw new Error(`${cause.message} [code: ${cause.code}]`, { cause });
  });
  const { id = "" } = (result ?? {}) as { id?: string };
  return { stdout: `Worker Version ID: ${id}\n`, stderr: "" };
}
