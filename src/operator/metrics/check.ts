import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Command } from "commander";
import { z } from "zod";
import { parseUrl, type RemoteEnvironment } from "../arguments.ts";
import { CloudflareApi } from "../cloudflare-api.ts";
import { EndWithStatus, printJson } from "../command-line.ts";
import { findAddresses } from "../deploy/addresses.ts";
import { readSettings } from "../settings.ts";
import { costOfLastDay } from "./prices.ts";
import { type QuestionName, querySqlApi, toSql } from "./questions.ts";

/** The exit status of `metrics check` if a measure is above its threshold. */
const ABOVE_THRESHOLD = 3;

const HELP = `
Requests /healthz at each address of the service, and compares the number of requests with those of
the time before and of a day before. Prints a sentence for each of these two measures, and for six more.
The exit status is 3 if a measure is above its threshold: if a part of the service is not healthy, or
there were no requests although there were some an hour or a day before, or as FILE says. It is 0 if no
measure is, and 1 if Cloudflare did not respond. Without requests, measures of them are unknown.

The token needs Account Analytics: Read, and Workers Scripts: Read to find the addresses. --url names
an address instead.

FILE is JSON with all of these thresholds. src/operator/metrics/thresholds.json has the defaults:
  errorPercent     share of all requests whose response was 5xx
  degradedPercent  share of all requests during which a part of the service failed
  p95Ms            95th percentile of the response time of requests with a key, in milliseconds
  refusedPercent   share of the requests with a key whose response was 429
  bannedKeys       number of keys that sent requests while they were banned, counted up to 50
  dollarsPerDay    cost of the account's use in the last 24 whole hours, as if the plan included
                   nothing; without logs, data points and storage

Examples:
  $ npm run metrics -- check --env production
  $ npm run -s metrics -- check --env staging --hours 24 --thresholds my-thresholds.json --json`;

interface CheckOptions {
  readonly env: RemoteEnvironment;
  readonly hours: number;
  readonly thresholds?: string;
  readonly url?: string;
  readonly json: boolean;
}

const DEFAULT_FILE = join(import.meta.dirname, "thresholds.json");
/** The thresholds that `--thresholds` cannot set. */
const FIXED = { unhealthyAddresses: 0, silentHours: 0 };
const HEALTH_TIMEOUT_MS = 20_000;

const figure = z.number().min(0);

const thresholdsSchema = z.strictObject({
  errorPercent: figure.max(100),
  degradedPercent: figure.max(100),
  p95Ms: figure,
  refusedPercent: figure.max(100),
  // The query `banned` returns at most 50 keys, so a threshold of 50 would never be exceeded.
  bannedKeys: figure.max(49),
  dollarsPerDay: figure,
});

/** The threshold of each measure. A larger measured value needs the operator's attention. */
type Thresholds = z.output<typeof thresholdsSchema>;

/** A measured value and a sentence about it. The value is `null` if there were no requests. */
type Measured = readonly [value: number | null, says: string];
type Measures = Readonly<Record<keyof Thresholds | keyof typeof FIXED, Measured>>;

const sum = z.coerce.number();
const healthSchema = z.record(z.enum(["requests", "errors", "degraded"]), sum);
const authenticatedSchema = z.object({ requests: sum, refused: sum, p95_ms: sum.nullable() });

/** Adds the options and the action of `metrics check`. */
export function defineCheck(command: Command): void {
  command
    .description("compare errors, speed, refusals, bans and costs with thresholds")
    .option(
      "--thresholds <file>",
      "thresholds to compare with (default: src/operator/metrics/thresholds.json)",
    )
    .option("--url <url>", "address of the service (default: all of its addresses)", parseUrl)
    .addHelpText("after", HELP)
    .action(check);
}

async function check(options: CheckOptions): Promise<void> {
  const thresholds = { ...(await readThresholds(options.thresholds ?? DEFAULT_FILE)), ...FIXED };
  const found = Object.entries(await measure(options)) as [keyof Measures, Measured][];
  const measures = found.map(([name, [value, sentence]]) => {
    const threshold = thresholds[name];
    const says = value === null ? "there were no requests to measure" : sentence;
    return { name, value, says, threshold, isAbove: value !== null && value > threshold };
  });
  if (options.json) printJson(measures);
  else {
    for (const { name, value, says, threshold, isAbove } of measures) {
      const result = isAbove ? "ABOVE" : value === null ? "unknown" : "ok";
      process.stdout.write(`${result}: ${says}; the threshold ${name} is ${threshold}.\n`);
    }
  }
  if (measures.some(({ isAbove }) => isAbove)) throw new EndWithStatus(ABOVE_THRESHOLD);
}

/** @throws an Error that names every missing, unknown or wrong field. */
async function readThresholds(file: string): Promise<Thresholds> {
  const text = await readFile(file, "utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${file} is not JSON: ${(error as Error).message}`, { cause: error });
  }
  const parsed = thresholdsSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const faults = parsed.error.issues.map(({ path, message }) => [...path, message].join(": "));
  throw new Error(`${file}: ${faults.join("; ")}`);
}

async function measure({ env, hours, url }: CheckOptions): Promise<Measures> {
  const api = await CloudflareApi.open();
  const ask = (question: QuestionName, hoursAgo = 0) =>
    querySqlApi(api, toSql(question, { environment: env, hours, hoursAgo }));
  const count = async (hoursAgo: number) => healthSchema.parse((await ask("health", hoursAgo))[0]);
  const [all, before, yesterday, withKey, banned, cost, unhealthy] = await Promise.all([
    count(0),
    count(hours),
    count(24),
    ask("authenticated").then(([row]) => authenticatedSchema.parse(row)),
    ask("banned"),
    costOfLastDay(api, new Date()),
    url === undefined
      ? readSettings(env).then(async (settings) => askHealth(await findAddresses(api, settings)))
      : askHealth([url]),
  ]);
  const { requests } = all;
  const isSilent = requests === 0 && before.requests + yesterday.requests > 0;
  const failed = percent(all.errors, requests);
  const degraded = percent(all.degraded, requests);
  const refused = percent(withKey.refused, withKey.requests);
  const p95 = withKey.p95_ms;
  const dollars = rounded(cost.dollars);
  return {
    unhealthyAddresses: [
      unhealthy.length,
      unhealthy.join(", ") || "/healthz answers that every part of the service responds",
    ],
    silentHours: [
      isSilent ? hours : 0,
      `${requests} requests, ${before.requests} in the time before, and ${yesterday.requests} a day before`,
    ],
    errorPercent: [failed, `the response to ${failed} % of ${requests} requests was 5xx`],
    degradedPercent: [
      degraded,
      `a part of the service failed during ${degraded} % of ${requests} requests`,
    ],
    p95Ms: [p95, `95 % of the requests with a key were answered within ${p95} ms`],
    refusedPercent: [
      refused,
      `${refused} % of ${withKey.requests} requests with a key were refused`,
    ],
    bannedKeys: [banned.length, `${banned.length} keys sent requests while they were banned`],
    dollarsPerDay: [
      dollars,
      `the account used up to $${dollars} in 24 hours, most of it for ${cost.most}`,
    ],
  };
}

/** Describes each address whose `/healthz` does not answer with 200. */
async function askHealth(addresses: readonly string[]): Promise<string[]> {
  const faults = addresses.map(async (address) => {
    const url = `${address}/healthz`;
    try {
      const { status } = await fetch(url, { signal: AbortSignal.timeout(HEALTH_TIMEOUT_MS) });
      return status === 200 ? [] : [`${url} answers ${status}`];
    } catch (error) {
      return [`${url} does not answer: ${(error as Error).message}`];
    }
  });
  return (await Promise.all(faults)).flat();
}

function percent(part: number, whole: number): number | null {
  return whole === 0 ? null : rounded((100 * part) / whole);
}

function rounded(value: number): number {
  return Math.round(value * 100) / 100;
}
