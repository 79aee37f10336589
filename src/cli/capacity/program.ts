import { type Command, InvalidArgumentError } from "commander";
import { createProgram, printJson } from "../command-line.ts";
import { readAssumptions } from "./assumptions-file.ts";
import { breakingPoints } from "./breaking-points.ts";
import type { Basis } from "./basis.ts";
import { estimate } from "./estimate.ts";
import { measure } from "./measured/measure.ts";
import { PLATFORM_LIMITS } from "./platform-limits.ts";
import { LOOKED_UP, PLAN_DOLLARS, PRICES } from "./prices.ts";
import { printReport } from "./print/print-report.ts";
import { showSimulation } from "./progress.ts";
import type { CapacityReport } from "./report.ts";
import { simulateTraffic } from "./traffic/traffic.ts";

const LARGEST = 1e12;
const KEYS = [1e3, 1e4, 1e5, 1e6, 1e7];
const ORDERS = [1e4, 1e5, 1e6, 1e7, 1e8];

const HELP = `
Nothing is asked of a network or of the store. A sample of keys is simulated for a day with the
service's own limiter, what storage and lists take is measured in a database in memory, and both are
multiplied with the operations that the tests count and the prices that Cloudflare publishes.
docs/capacity.md tells how to read the result.

FILE is a JSON object with any part of the assumptions that --json prints, such as
  {"conditionalShare": 0.9, "plans": {"free": {"requestsPerDay": {"median": 50}}}}

Examples:
  $ npm run capacity
  $ npm run capacity -- --keys 20000 50000 --orders 300000
  $ npm run capacity -- --assumptions ours.json
  $ npm run -s capacity -- --keys 1e5 --orders 1e6 --json | jq .scales[0].bill`;

interface CapacityOptions {
  readonly keys?: number[];
  readonly orders?: number[];
  readonly assumptions?: string;
  readonly json: boolean;
}

/** The command line of `npm run capacity`. */
export function capacityProgram(): Command {
  return createProgram(
    "npm run capacity --",
    "Estimate what the service uses and costs in a month, and which limit of the platform it meets first.",
  )
    .option("--keys <n...>", "API keys, such as 20000 or 1e6 (default: 1e3 to 1e7)", parseScales)
    .option("--orders <n...>", "orders stored (default: 1e4 to 1e8)", parseScales)
    .option("--assumptions <file>", "JSON file that replaces some of the assumptions")
    .option("--json", "print one JSON value and nothing else", false)
    .addHelpText("after", HELP)
    .allowExcessArguments(false)
    .action(async ({ keys = KEYS, orders = ORDERS, assumptions, json }: CapacityOptions) => {
      const basis = await prepare(assumptions);
      const report = reportOn(keys, orders, basis);
      if (json) printJson(toJson(report));
      else printReport(report);
    });
}

async function prepare(assumptionsFile: string | undefined): Promise<Basis> {
  const assumptions = await readAssumptions(assumptionsFile);
  const traffic = showSimulation((onProgress) => simulateTraffic(assumptions, onProgress));
  return { traffic, measured: await measure(new Date()), assumptions };
}

function reportOn(
  keys: readonly number[],
  orders: readonly number[],
  basis: Basis,
): CapacityReport {
  const smallest = { keys: Math.min(...keys), orders: Math.min(...orders) };
  return {
    ...basis,
    scales: keys.flatMap((count) =>
      orders.map((stored) => estimate({ keys: count, orders: stored }, basis)),
    ),
    smallest,
    asKeysGrow: breakingPoints("keys", smallest, basis),
    asOrdersGrow: breakingPoints("orders", smallest, basis),
  };
}

function toJson({ traffic, ...report }: CapacityReport): object {
  const { conditionalLists: _, ...figures } = traffic;
  const published = {
    lookedUp: LOOKED_UP,
    planDollars: PLAN_DOLLARS,
    prices: PRICES,
    limits: PLATFORM_LIMITS,
  };
  return { ...report, traffic: figures, published };
}

function parseScales(text: string, earlier: number[] | undefined): number[] {
  const count = /^\d+(e\d+)?$/.test(text) ? Number(text) : NaN;
  if (count >= 1 && count <= LARGEST) return [...(earlier ?? []), count];
  throw new InvalidArgumentError("Expected a whole number from 1 to 1e12, such as 20000 or 1e6.");
}
