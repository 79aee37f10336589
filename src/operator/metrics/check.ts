import { type Command, Option } from "commander";
import { z } from "zod";
import { EndWithStatus, printJson } from "../command-line.ts";
import { REMOTE_ENVIRONMENTS, type RemoteEnvironment } from "../environment.ts";
import { costOfLastDay } from "./account-use.ts";
import { parseHours } from "./hours.ts";
import { type QuestionName, toSql } from "./questions.ts";
import { querySqlApi } from "./sql-api.ts";
import { DEFAULT_FILE, readThresholds, type Thresholds } from "./thresholds.ts";

/** Exit status if a measure is above its threshold. */
const ABOVE_THRESHOLD = 3;

const HELP = `
Prints a sentence for each of six measures. Ends with status 3 if one is above its threshold, 0 if
none is, and 1 if Cloudflare did not answer. Without requests the shares are 0.

FILE is JSON with all of these thresholds. src/operator/metrics/thresholds.json has the defaults:
  errorPercent     requests that were answered 5xx
  degradedPercent  requests that met a part that did not answer
  p95Ms            time within which 95 % of the requests with a key were answered
  refusedPercent   requests with a key that were answered 429
  bannedKeys       keys that asked while they were banned, counted up to 50
  dollarsPerDay    use of the whole account in the last 24 hours, as if the plan included nothing;
                   without logs, data points and storage

Examples:
  $ npm run metrics -- check --env production
  $ npm run -s metrics -- check --env staging --hours 24 --thresholds my-thresholds.json --json`;

interface CheckOptions {
  readonly env: RemoteEnvironment;
  readonly hours: number;
  readonly thresholds?: string;
  readonly json: boolean;
}

/** A figure of the service, and what it says. */
interface Measure {
  readonly name: keyof Thresholds;
  readonly value: number;
  readonly says: string;
}

interface ComparedMeasure extends Measure {
  readonly threshold: number;
  readonly isAbove: boolean;
}

const healthSchema = z.object({
  requests: z.coerce.number(),
  errors: z.coerce.number(),
  degraded: z.coerce.number(),
});
const authenticatedSchema = z.object({
  requests: z.coerce.number(),
  refused: z.coerce.number(),
  p95_ms: z.coerce.number(),
});

/** Completes the command `metrics check`, which compares the service with thresholds. */
export function defineCheck(command: Command): void {
  command
    .description("compare errors, speed, refusals, bans and costs with thresholds")
    .addOption(
      new Option("--env <environment>", "whose requests")
        .choices(REMOTE_ENVIRONMENTS)
        .makeOptionMandatory(),
    )
    .option("--hours <n>", "how far back to look", parseHours, 1)
    .option(
      "--thresholds <file>",
      "thresholds to compare with (default: src/operator/metrics/thresholds.json)",
    )
    .option("--json", "print one JSON array", false)
    .addHelpText("after", HELP)
    .action(check);
}

async function check(options: CheckOptions): Promise<void> {
  const thresholds = await readThresholds(options.thresholds ?? DEFAULT_FILE);
  const measures = (await measure(options)).map((measured): ComparedMeasure => {
    const threshold = thresholds[measured.name];
    return { ...measured, threshold, isAbove: measured.value > threshold };
  });
  if (options.json) printJson(measures);
  else for (const measured of measures) process.stdout.write(`${sentence(measured)}\n`);
  if (measures.some(({ isAbove }) => isAbove)) throw new EndWithStatus(ABOVE_THRESHOLD);
}

function sentence({ name, says, threshold, isAbove }: ComparedMeasure): string {
  return `${isAbove ? "ABOVE" : "ok"}: ${says}; the threshold ${name} is ${threshold}.`;
}

async function measure({ env: environment, hours }: CheckOptions): Promise<Measure[]> {
  const ask = (question: QuestionName) =>
    querySqlApi(toSql(question, { environment, hours }), process.env);
  const [all, withKey, banned, cost] = await Promise.all([
    ask("health").then(([row]) => healthSchema.parse(row)),
    ask("authenticated").then(([row]) => authenticatedSchema.parse(row)),
    ask("banned"),
    costOfLastDay(process.env, new Date()),
  ]);
  const errorPercent = percent(all.errors, all.requests);
  const degradedPercent = percent(all.degraded, all.requests);
  const refusedPercent = percent(withKey.refused, withKey.requests);
  const dollarsPerDay = rounded(cost.dollars);
  return [
    {
      name: "errorPercent",
      value: errorPercent,
      says: `${errorPercent} % of ${all.requests} requests were answered 5xx`,
    },
    {
      name: "degradedPercent",
      value: degradedPercent,
      says: `${degradedPercent} % of ${all.requests} requests met a part that did not answer`,
    },
    {
      name: "p95Ms",
      value: withKey.p95_ms,
      says: `95 % of the requests with a key were answered within ${withKey.p95_ms} ms`,
    },
    {
      name: "refusedPercent",
      value: refusedPercent,
      says: `${refusedPercent} % of ${withKey.requests} requests with a key were refused`,
    },
    {
      name: "bannedKeys",
      value: banned.length,
      says: `${banned.length} keys asked while they were banned`,
    },
    {
      name: "dollarsPerDay",
      value: dollarsPerDay,
      says: `the account used up to $${dollarsPerDay} in 24 hours, most of it for ${cost.most}`,
    },
  ];
}

function percent(part: number, whole: number): number {
  return whole === 0 ? 0 : rounded((100 * part) / whole);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
