import type { RemoteEnvironment } from "../environment.ts";

/** One step of a deployment. */
export interface Step {
  readonly title: string;
  readonly run: () => Promise<void>;
  /** What the operator needs to know if this step fails; a function, where the steps before settle it. */
  readonly ifItFails: string | (() => string);
}

/**
 * Runs the steps in order, and says on stdout which one it is at.
 *
 * @throws an Error that tells which step failed, what was not done, and the way on or back.
 */
export async function runSteps(env: RemoteEnvironment, steps: readonly Step[]): Promise<void> {
  for (const [index, step] of steps.entries()) {
    console.log(`${step.title} ...`);
    try {
      await step.run();
    } catch (error) {
      const undone = steps.slice(index + 1).map(({ title }) => title);
      throw failure(env, step, undone, error as Error);
    }
  }
}

function failure(
  env: RemoteEnvironment,
  { title, ifItFails }: Step,
  undone: readonly string[],
  error: Error,
): Error {
  const consequence = typeof ifItFails === "string" ? ifItFails : ifItFails();
  const lines = [`"${title}" failed: ${error.message}`, consequence];
  if (undone.length > 0) lines.push(`Not done: ${undone.join("; ")}.`);
  lines.push(`To go on: mend the cause and run \`npm run deploy -- --env ${env}\` again.`);
  return new Error(lines.join("\n"), { cause: error });
}
