import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { type Config, parseConfig, VAR_NAMES } from "../rules/config.ts";
import { readConfig } from "./settings.ts";
import { PROJECT_ROOT } from "./wrangler.ts";

/** A line that sets a var, or a comment, or empty: what wrangler understands in `.dev.vars`. */
const LINE = /^\s*(?:#.*|(?:export\s+)?[\w.-]+\s*=.*)?$/;

/**
 * Reads an environment's vars strictly: the Worker itself ignores vars that it does not know, so a
 * mistyped name would leave the default in force.
 *
 * @param place where the vars are set, for messages.
 * @throws an Error for the operator that names every unknown or invalid var.
 */
export function checkVars(vars: Readonly<Record<string, unknown>>, place: string): Config {
  const unknown = Object.keys(vars).filter((name) => !VAR_NAMES.includes(name));
  if (unknown.length === 0) return parseConfig(vars);
  const faults = unknown.map((name) => `${name} (did you mean ${nearestTo(name)}?)`);
  throw new Error(`the service has no var ${faults.join(" and no var ")}: see ${place}`);
}

/**
 * Checks the vars of the local service: those of `.dev.vars`, and those at the top of `wrangler.toml`.
 *
 * @throws an Error for the operator, as `checkVars` does, or that names a line which sets no var.
 */
export async function checkLocalVars(folder = PROJECT_ROOT): Promise<void> {
  checkVars((await readConfig(folder)).vars, "[vars] in wrangler.toml");
  const text = await readFile(join(folder, ".dev.vars"), "utf8").catch(() => "");
  const wrong = text.split(/\r?\n/).findIndex((line) => !LINE.test(line));
  if (wrong >= 0) throw new Error(`.dev.vars, line ${wrong + 1}: expected NAME=value`);
  const { jurisdiction } = checkVars(parseEnv(text), ".dev.vars");
  if (jurisdiction === undefined) return;
  throw new Error(".dev.vars: only a deployed environment can have a JURISDICTION");
}

/** Returns the var that shares most pairs of neighbouring letters with a name (Dice's coefficient). */
function nearestTo(name: string): string | undefined {
  const pairsOf = (text: string) => [...text.matchAll(/(?=(..))/g)].map(([, pair]) => pair);
  const own = pairsOf(name.toUpperCase());
  const likeness = (known: string) => {
    const pairs = pairsOf(known);
    return own.filter((pair) => pairs.includes(pair)).length / (own.length + pairs.length);
  };
  return VAR_NAMES.toSorted((one, other) => likeness(other) - likeness(one))[0];
}
