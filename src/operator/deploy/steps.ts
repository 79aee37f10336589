import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { Settings } from "./settings.ts";
import type { VersionLabel } from "./wrangler-steps.ts";

/** The data that all steps of a deployment share. */
export interface RollOut {
  readonly env: RemoteEnvironment;
  readonly settings: Settings;
  readonly api: CloudflareApi;
  readonly label: VersionLabel;
  readonly domain: string | undefined;
  /** How long to wait until a new version or address responds, in seconds. */
  readonly patience: number;
  /** Aborted if SIGINT or SIGTERM ends the command. */
  readonly signal: AbortSignal;
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
}

/**
 * Runs the steps in order and prints the title of each step. If the signal of the roll-out is
 * aborted, the next step fails.
 *
 * @throws an Error that names the failed step, the steps that did not run, and how to continue.
 */
export async function runSteps(
  env: RemoteEnvironment,
  steps: readonly Step[],
  signal: AbortSignal,
): Promise<void> {
  for (const [index, step] of steps.entries()) {
    print(`${step.title} ...`);
    try {
      signal.throwIfAborted();
      await step.run();
    } catch (error) {
      const undone = steps.slice(index + 1).map(({ title }) => title);
      throw await describeFailure(env, step, undone, error as Error);
    }
  }
}

export function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function describeFailure(
  env: RemoteEnvironment,
  { title, ifItFails }: Step,
  undone: readonly string[],
  error: Error,
): Promise<Error> {
  const consequence = typeof ifItFails === "string" ? ifItFails : await ifItFails();
  const lines = [`"${title}" failed: ${error.message}`, consequence];
  if (undone.length > 0) lines.push(`Not done: ${undone.join("; ")}.`);
  lines.push(`To continue, remove the cause and run \`npm run deploy -- --env ${env}\` again.`);
  return new Error(lines.join("\n"), { cause: error });
}
