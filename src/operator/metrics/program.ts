import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { Table } from "console-table-printer";
import { createProgram, printJson, UsageError } from "../command-line.ts";
import { REMOTE_ENVIRONMENTS, type RemoteEnvironment } from "../environment.ts";
import { parseCount } from "../arguments.ts";
import { QUESTIONS, type QuestionName, toSql } from "./questions.ts";
import { querySqlApi, type Row } from "./sql-api.ts";

/** Analytics Engine keeps data for three months. */
const LONGEST_HOURS = 2_208;

const HELP = `
Questions:
${Object.entries(QUESTIONS)
  .map(([name, { asks }]) => `  ${name.padEnd(11)} ${asks}`)
  .join("\n")}

Examples:
  $ npm run metrics -- traffic --env production
  $ npm run metrics -- refused --env production --hours 168 --json
  $ npm run metrics -- key --key key_v4hynivbh72jw5th --env production
  $ npm run metrics -- slowest --env staging --sql     the statement itself, for Grafana or curl

Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token that may read Account Analytics. Figures
are estimates where Cloudflare has sampled: \`npm run keys -- usage\` has the exact ones.`;

interface MetricsOptions {
  readonly env: RemoteEnvironment;
  readonly hours: number;
  readonly key?: string;
  readonly json: boolean;
  readonly sql: boolean;
}

/** The command line of `npm run metrics`. */
export function metricsProgram(): Command {
  return createProgram("npm run metrics --", "Ask what a deployed service has been doing.")
    .addArgument(new Argument("<question>", "one of those below").choices(Object.keys(QUESTIONS)))
    .addOption(
      new Option("--env <environment>", "whose requests")
        .choices(REMOTE_ENVIRONMENTS)
        .makeOptionMandatory(),
    )
    .option("--hours <n>", "how far back to look", parseHours, 24)
    .option("--key <id>", "requests of this key alone", parseKeyId)
    .option("--json", "print one JSON array", false)
    .option("--sql", "print the statement and ask nothing", false)
    .addHelpText("after", HELP)
    .action(ask);
}

async function ask(question: QuestionName, options: MetricsOptions): Promise<void> {
  const { env: environment, hours, key: keyId } = options;
  if (question === "key" && keyId === undefined) throw new UsageError("name the key: --key ID");
  const sql = toSql(question, { environment, hours, ...(keyId !== undefined && { keyId }) });
  if (options.sql) {
    process.stdout.write(`${sql}\n`);
    return;
  }
  const rows = await querySqlApi(sql, process.env);
  if (options.json) return printJson(rows);
  process.stdout.write(rows.length === 0 ? "Nothing.\n" : `${toTable(rows)}\n`);
}

function toTable(rows: readonly Row[]): string {
  const columns = Object.entries(rows[0] ?? {}).map(([name, value]) => ({
    name,
    title: name.replaceAll("_", " "),
    alignment: typeof value === "number" ? ("right" as const) : ("left" as const),
  }));
  const table = new Table({ shouldDisableColors: true, columns });
  for (const row of rows) table.addRow(row);
  return table.render();
}

function parseHours(text: string): number {
  const hours = parseCount(text);
  if (hours <= LONGEST_HOURS) return hours;
  throw new InvalidArgumentError(`Expected at most ${LONGEST_HOURS}: older data is not kept.`);
}

function parseKeyId(text: string): string {
  if (/^key_[a-z2-7]{16}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected an id such as key_v4hynivbh72jw5th.");
}
