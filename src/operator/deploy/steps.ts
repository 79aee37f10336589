import type { CloudflareApi } from "../cloudflare-api.ts";
import { typedLine } from "../command-line.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import type { VersionLabel } from "./versions.ts";

export interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** If true, creates the Worker and the databases, near `location` or in `jurisdiction`. */
  readonly create: boolean;
  readonly location?: string;
  readonly jurisdiction?: string;
  /** A hostname that becomes an address of the service. */
  readonly domain?: string;
  readonly dryRun: boolean;
  /** If true, skips the checks of types, uncommitted changes and staging. */
  readonly skipChecks: boolean;
  /** How long to wait until a new version or address responds, in seconds. */
  readonly patience: number;
}

/** The data that all steps of a deployment share. */
export interface RollOut extends DeployOptions {
  readonly settings: Settings;
  readonly api: CloudflareApi;
  readonly label: VersionLabel;
  /** Checks that the orders database is replicated. Empty unless `LIST_READS` is `nearest`. */
  readonly replicationChecks: readonly Step[];
  /** Aborted by SIGINT and SIGTERM. */
  readonly signal: AbortSignal;
}

export interface Step<T = void> {
  readonly title: string;
  readonly run: () => Promise<T>;
  /**
   * The part of the error message that says what was changed, by default "Nothing was changed." A
   * function may roll back the deployment before it returns the text.
   */
  readonly ifItFails?: string | (() => string | Promise<string>);
  /** The command that continues after a failure; by default the one that the operator typed. */
  readonly again?: string | (() => Promise<string>);
}

/** Runs steps in order. If the signal is aborted, the next step fails. */
export async function runSteps(steps: readonly Step[], signal: AbortSignal): Promise<void> {
  for (const [index, step] of steps.entries()) {
    const next = steps.slice(index + 1).map(({ title }) => title);
    await runStep(step, signal, next);
  }
}

/** Prints the title and runs a step. @throws an Error that names this step and the `next` steps. */
export async function runStep<T>(
  { title, run, ifItFails = "Nothing was changed.", again = typedLine() }: Step<T>,
  signal: AbortSignal,
  next: readonly string[] = [],
): Promise<T> {
  print(`${title} ...`);
  try {
    signal.throwIfAborted();
    return await run();
  } catch (error) {
    const lines = [
      `"${title}" failed: ${(error as Error).message}`,
      typeof ifItFails === "string" ? ifItFails : await ifItFails(),
      ...(next.length > 0 ? [`Not done: ${next.join("; ")}.`] : []),
      `To continue, remove the cause and run \`${typeof again === "string" ? again : await again()}\`.`,
    ];
    throw new Error(lines.join("\n"), { cause: error });
  }
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
