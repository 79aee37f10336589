import type { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { Settings } from "./settings.ts";
import type { VersionLabel } from "./wrangler-steps.ts";

/** What the steps of a deployment share. */
export interface RollOut {
  readonly env: RemoteEnvironment;
  readonly settings: Settings;
  readonly api: CloudflareApi;
  readonly label: VersionLabel;
  readonly domain: string | undefined;
  readonly patience: number;
  /** Aborted if somebody ends the command. */
  readonly signal: AbortSignal;
}

/** One step of a deployment. */
export interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
  /** Advice for the operator if this step fails; a function may also mend something first. */
  readonly ifItFails: string | (() => string | Promise<string>);
}

/**
 * Runs the steps in order and prints the title of each. If the signal is aborted, the next step fails.
 *
 * @throws an Error that names the failed step, what was not done, and how to continue or go back.
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

/** Prints a line on stdout. */
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
  lines.push(`To go on: mend the cause and run \`npm run deploy -- --env ${env}\` again.`);
  return new Error(lines.join("\n"), { cause: error });
}
