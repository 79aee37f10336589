import { type Command, InvalidArgumentError, Option } from "commander";
import { envOption, jsonOption, parseCount, type RemoteEnvironment } from "../arguments.ts";
import { CloudflareApi } from "../cloudflare-api.ts";
import { createProgram, printJson } from "../command-line.ts";
import { formatTable } from "../terminal-text.ts";
import { defineCheck } from "./check.ts";
import { QUESTIONS, type QuestionName, querySqlApi, toSql } from "./questions.ts";

const HELP = `
Examples:
  $ npm run metrics -- traffic --env production
  $ npm run metrics -- refused --env production --hours 168 --json
  $ npm run metrics -- key --key key_v4hynivbh72jw5th --env production
  $ npm run metrics -- slowest --env staging --sql     the SQL statement, for Grafana or curl
  $ npm run metrics -- check --env production          status 3 if something needs attention

Set CLOUDFLARE_ACCOUNT_ID, and CLOUDFLARE_API_TOKEN to a token that may read Account Analytics:
the login of \`npx wrangler login\` may not.
All figures are estimates, because Cloudflare samples requests. \`npm run keys -- usage\` has the
exact number of admitted requests.`;

/** The columns that a narrow terminal shortens, because their texts can have any length. */
const CUT_COLUMNS = ["route", "code", "missing"];

/** Analytics Engine keeps data for three months. */
const LONGEST_HOURS = 2_208;

interface QuestionOptions {
  readonly env: RemoteEnvironment;
  readonly hours: number;
  readonly key?: string;
  readonly json: boolean;
  readonly sql: boolean;
}

/** Defines the command line of `npm run metrics`. */
export function metricsProgram(): Command {
  const program = createProgram(
    "npm run metrics --",
    "Query the requests of a deployed service.",
  ).addHelpText("after", HELP);
  for (const name of Object.keys(QUESTIONS) as QuestionName[]) {
    defineQuery(program, name, 24)
      .description(QUESTIONS[name].asks)
      .addOption(
        new Option("--key <id>", "only requests of this key")
          .argParser(parseKeyId)
          .makeOptionMandatory(name === "key"),
      )
      .option("--sql", "print the SQL statement without running it", false)
      .action((options: QuestionOptions) => ask(name, options));
  }
  defineCheck(defineQuery(program, "check", 1));
  return program;
}

function defineQuery(program: Command, name: string, hours: number): Command {
  return program
    .command(name)
    .addOption(envOption("whose requests").makeOptionMandatory())
    .option("--hours <n>", "how far back to look", parseHours, hours)
    .addOption(jsonOption("print one JSON array and nothing else"));
}

async function ask(question: QuestionName, options: QuestionOptions): Promise<void> {
  const { env: environment, hours, key: keyId } = options;
  const sql = toSql(question, { environment, hours, keyId });
  if (options.sql) return void process.stdout.write(`${sql}\n`);
  const rows = await querySqlApi(await CloudflareApi.open(), sql);
  if (options.json) return printJson(rows);
  process.stdout.write(
    rows.length === 0 ? "No matching requests.\n" : formatTable(rows, { cut: CUT_COLUMNS }),
  );
}

function parseKeyId(text: string): string {
  if (/^key_[a-z2-7]{16}$/.test(text)) return text;
  throw new InvalidArgumentError("Expected an id such as key_v4hynivbh72jw5th.");
}

function parseHours(text: string): number {
  const hours = parseCount(text);
  if (hours <= LONGEST_HOURS) return hours;
  throw new InvalidArgumentError(`Expected at most ${LONGEST_HOURS}: older data is not kept.`);
}
