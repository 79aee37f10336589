import { type Command, InvalidArgumentError } from "commander";
import { createProgram, printJson } from "../command-line.ts";
import { ASSUMPTIONS, type Assumptions } from "./assumptions.ts";
import { breakingPoints, estimate, LARGEST_SCALE } from "./estimate.ts";
import { printReport } from "./print.ts";

const KEYS = [1e3, 1e4, 1e5, 1e6, 1e7];
const ORDERS = [1e4, 1e5, 1e6, 1e7, 1e8];

const HELP = `
The command uses neither the network nor the store. It multiplies the number of operations by
Cloudflare's prices. Tests check the number of operations of each request in the running service.
docs/capacity.md explains the result.

Examples:
  $ npm run capacity
  $ npm run capacity -- --keys 20000 50000 --orders 300000 --conditional-share 0.9
  $ npm run -s capacity -- --keys 1e5 --orders 1e6 --json | jq .scales[0].bill`;

interface CapacityOptions extends Assumptions {
  readonly keys?: number[];
  readonly orders?: number[];
  readonly json: boolean;
}

/** Defines the command line of `npm run capacity`, with an option for each assumption. */
export function capacityProgram(): Command {
  const program = createProgram(
    "npm run capacity --",
    "Estimate a month on Cloudflare: operations, dollars, and the first limit that is exceeded.",
  )
    .option("--keys <n...>", "API keys, such as 20000 or 1e6 (default: 1e3 to 1e7)", parseScales)
    .option("--orders <n...>", "stored orders (default: 1e4 to 1e8)", parseScales)
    .option("--json", "print one JSON value and nothing else", false)
    .addHelpText("after", HELP)
    .allowExcessArguments(false)
    .action(({ keys = KEYS, orders = ORDERS, json, ...assumptions }: CapacityOptions) => {
      const smallest = { keys: Math.min(...keys), orders: Math.min(...orders) };
      const report = {
        scales: keys.flatMap((count) =>
          orders.map((stored) => estimate({ keys: count, orders: stored }, assumptions)),
        ),
        smallest,
        asKeysGrow: breakingPoints("keys", smallest, assumptions),
        asOrdersGrow: breakingPoints("orders", smallest, assumptions),
      };
      if (json) printJson({ ...report, assumptions });
      else printReport(report);
    });
  for (const [name, [value, meaning]] of Object.entries(ASSUMPTIONS)) {
    const option = name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);
    const parse = (text: string) => parseAssumption(name, text);
    program.option(`--${option} <n>`, meaning, parse, value);
  }
  return program;
}

function parseScales(text: string, earlier: number[] | undefined): number[] {
  const count = /^\d+(e\d+)?$/.test(text) ? Number(text) : NaN;
  if (count >= 1 && count <= LARGEST_SCALE) return [...(earlier ?? []), count];
  throw new InvalidArgumentError("Expected a whole number from 1 to 1e12, such as 20000 or 1e6.");
}

function parseAssumption(name: string, text: string): number {
  const value = /^\d+(\.\d+)?$/.test(text) ? Number(text) : NaN;
  const isShare = name.endsWith("Share");
  if (isShare ? value <= 1 : value > 0) return value;
  throw new InvalidArgumentError(`Expected a number ${isShare ? "from 0 to 1" : "above 0"}.`);
}
