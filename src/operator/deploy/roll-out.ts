import { CloudflareApi } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import type { Place } from "./account.ts";
import { withInterruption } from "../interruption.ts";
import { checkHostname } from "./addresses.ts";
import { checkCommit, labelCommit, localChecks } from "./checks.ts";
import { prepareFirstVersion } from "./first-version.ts";
import { prepareNextVersion } from "./next-version.ts";
import { readSettings } from "./settings.ts";
import { print, runSteps } from "./steps.ts";
import { checkBuild } from "./wrangler-steps.ts";

export interface DeployOptions {
  readonly env: RemoteEnvironment;
  /** Where to create the databases of a first roll-out; `undefined` for every later deployment. */
  readonly create: Place | undefined;
  /** A hostname that becomes an address of the service. */
  readonly domain?: string;
  /**
   * If true, the command runs its checks, prints the steps of the deployment, and runs none of
   * them.
   */
  readonly dryRun: boolean;
  /** True skips the checks of types, commits and staging, for an emergency. */
  readonly skipChecks: boolean;
  /** How long to wait until a new version or address responds, in seconds. */
  readonly patience: number;
}

/**
 * Deploys the service and prints each step. Before the first step, runs all checks, which change
 * nothing.
 *
 * @throws an Error that names the failed step and the steps that did not run. It also tells the
 *   operator how to continue or to roll back.
 */
export async function deploy(options: DeployOptions): Promise<void> {
  await withInterruption("the deployment was complete", (signal) => rollOut(options, signal));
}

async function rollOut(options: DeployOptions, signal: AbortSignal): Promise<void> {
  const { env, create, domain, dryRun, skipChecks, patience } = options;
  const check = async <T>(title: string, work: () => Promise<T>): Promise<T> => {
    const results: T[] = [];
    const run = async () => void results.push(await work());
    await runSteps(env, [{ title, run, ifItFails: "Nothing was changed." }], signal);
    return results[0] as T;
  };
  if (!skipChecks) await runSteps(env, localChecks(env), signal);
  const settings = await check(`Check the settings of ${env}`, () => readSettings(env));
  await check(`Check the build of ${env}`, () => checkBuild(env));
  const api = await check("Log in to Cloudflare", () => CloudflareApi.open());
  const label = await labelCommit();
  const shared = { env, settings, api, label, domain, patience, signal };
  const steps = await check("Check the Worker and its databases", () =>
    create === undefined ? prepareNextVersion(shared) : prepareFirstVersion(shared, create),
  );
  if (domain !== undefined) {
    await check(`Check that ${domain} is free`, () => checkHostname(api, domain, settings.worker));
  }
  if (env === "production" && !skipChecks) {
    await check("Check that staging serves this commit", () => checkCommit(shared));
  }
  if (dryRun) {
    for (const { title } of steps) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    return;
  }
  await runSteps(env, steps, signal);
}
