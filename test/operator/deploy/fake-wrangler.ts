import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import type { FakeCloudflare } from "./fake-cloudflare.ts";
import { ApiError } from "./route.ts";

const TEXT = { type: "string" } as const;

/** Makes the API call that matters of a command of wrangler, which takes two seconds to start. */
export async function runFakeWrangler(
  cloudflare: FakeCloudflare,
  args: readonly string[],
): Promise<string> {
  const options = { env: TEXT, tag: TEXT, message: TEXT, file: TEXT };
  const parsed = parseArgs({ args: [...args], options, strict: false, allowPositionals: true });
  const values = parsed.values as Record<string, string>;
  const { env = "", tag, message, file = "", location, jurisdiction } = values;
  const [command, action = "", name = "", ...rest] = parsed.positionals;
  const token = process.env["CLOUDFLARE_API_TOKEN"];
  if (values["dry-run"]) return "";
  if (!token) throw new Error("Not logged in. Please run `wrangler login` to authenticate.");
  if (command === "auth") return token;

  const script = `/workers/scripts/store-orders-${env}`;
  const annotations = { "workers/tag": tag, "workers/message": message };
  const version = () => ({ bindings: cloudflare.bindings(env), annotations });
  const shares = [name, ...rest].map((share) => share.split(/[@%]/));
  const versions = shares.map(([version_id, part]) => ({ version_id, percentage: Number(part) }));
  const executed = () => cloudflare.d1.find(`store-orders-${env}-${name.toLowerCase()}`).uuid;
  const calls: Readonly<Record<string, () => [call: string, body: object]>> = {
    "deploy ": () => [`PUT ${script}`, version()],
    "versions upload": () => [`POST ${script}/versions`, version()],
    "versions deploy": () => [`POST ${script}/deployments`, { versions, annotations }],
    "triggers deploy": () => [`PUT ${script}/schedules`, [{ cron: "23 * * * *" }]],
    "d1 create": () => ["POST /d1/database", { name, location, jurisdiction }],
    "d1 execute": () => [`POST /d1/database/${executed()}/import`, readFileSync(file)],
  };
  const [call, body] = calls[`${command} ${action}`]!();
  const result = (await cloudflare.call(call, body).catch((cause) => {
    if (!(cause instanceof ApiError)) throw cause;
    throw new Error(`${cause.message} [code: ${cause.code}]`, { cause });
  })) as { id?: string } | undefined;
  return `Worker Version ID: ${result?.id}\n`;
}
