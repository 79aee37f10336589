import { typedLine } from "../command-line.ts";
import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { Settings } from "../settings.ts";
import type { VersionLabel } from "./wrangler-steps.ts";

/** The data that all steps of a deployment share. */
export interface RollOut {
  readonly env: RemoteEnvironment;
  readonly settings: Settings;
  /**
   * Returns the client of the account.
   *
   * @throws an Error if there is no login, which only a dry run allows.
   */
  readonly account: () => CloudflareApi;
  readonly label: VersionLabel;
  readonly domain: string | undefined;
  /** How long to wait until a new version or address responds, in seconds. */
  readonly patience: number;
  /** Aborted if SIGINT or SIGTERM ends `npm run deploy`. */
  readonly signal: AbortSignal;
}

/** The check of an account before a deployment, and the steps that follow it. */
export interface Plan {
  readonly check: Step;
  /**
   * Returns the steps of the deployment. Without the check, these are the steps for an account in
   * which the check would find everything as it must be.
   */
  readonly steps: () => Step[];
}

/** One step of a deployment. */
export interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
  /**
   * Advice for the operator if this step fails, or a function that returns the advice. The function
   * may also roll back the deployment.
   */
  readonly ifItFails: string | (() => string | Promise<string>);
  /** The command line that continues after a failure of this step; by default the typed line. */
  readonly again?: string | (() => Promise<string>);
}

/** Returns a step that changes nothing. */
export function checkStep(title: string, run: () => Promise<void>): Step {
  return { title, run, ifItFails: "Nothing was changed." };
}

/**
 * Runs the steps in order and prints the title of each step. If the signal is aborted, the next
 * step fails.
 *
 * @throws an Error that names the failed step, the steps that did not run, and how to continue.
 */
export async function runSteps(steps: readonly Step[], signal: AbortSignal): Promise<void> {
  for (const [index, { title, run, ifItFails, again = typedLine() }] of steps.entries()) {
    print(`${title} ...`);
    try {
      signal.throwIfAborted();
      await run();
    } catch (error) {
      const lines = [`"${title}" failed: ${(error as Error).message}`];
      lines.push(typeof ifItFails === "string" ? ifItFails : await ifItFails());
      const undone = steps.slice(index + 1).map((step) => step.title);
      if (undone.length > 0) lines.push(`Not done: ${undone.join("; ")}.`);
      const line = typeof again === "string" ? again : await again();
      lines.push(`To continue, remove the cause and run \`${line}\`.`);
      throw new Error(lines.join("\n"), { cause: error });
    }
  }
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
