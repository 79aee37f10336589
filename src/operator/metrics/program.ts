import { Argument, type Command, InvalidArgumentError, Option } from "commander";
import { createProgram, printJson, UsageError } from "../command-line.ts";
import { REMOTE_ENVIRONMENTS, type RemoteEnvironment } from "../environment.ts";
import { parseCount } from "../arguments.ts";
import { QUESTIONS, type QuestionName, toSql } from "./questions.ts";
import { querySqlApi } from "./sql-api.ts";
import { textTable } from "../text-table.ts";

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
  $ npm run metrics -- slowest --env staging --sql     the SQL statement, for Grafana or curl

Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token that may read Account Analytics. If
Cloudflare samples requests, figures are estimates; \`npm run keys -- usage\` has exact figures.`;

interface MetricsOptions {
  readonly env: RemoteEnvironment;
  readonly hours: number;
  readonly key?: string;
  readonly json: boolean;
  readonly sql: boolean;
}

/** Defines the command line of `npm run metrics`, whose figures may be estimates from samples. */
export function metricsProgram(): Command {
  return createProgram("npm run metrics --", "Query the requests of a deployed service.")
    .addArgument(
      new Argument("<question>", "one of the questions below").choices(Object.keys(QUESTIONS)),
    )
    .addOption(
      new Option("--env <environment>", "whose requests")
        .choices(REMOTE_ENVIRONMENTS)
        .makeOptionMandatory(),
    )
    .option("--hours <n>", "how far back to look", parseHours, 24)
    .option("--key <id>", "only requests of this key", parseKeyId)
    .option("--json", "print one JSON array", false)
    .option("--sql", "print the SQL statement without running it", false)
    .addHelpText("after", HELP)
    .action(ask);
}

async function ask(question: QuestionName, options: MetricsOptions): Promise<void> {
  const { env: environment, hours, key: keyId } = options;
  if (question === "key" && keyId === undefined)
    throw new UsageError("the question key needs --key ID");
  const sql = toSql(question, { environment, hours, ...(keyId !== undefined && { keyId }) });
  if (options.sql) {
    process.stdout.write(`${sql}\n`);
    return;
  }
  const rows = await querySqlApi(sql, process.env);
  if (options.json) return printJson(rows);
  process.stdout.write(rows.length === 0 ? "No matching requests.\n" : `${textTable(rows)}\n`);
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
