import { CloudflareApi, NotLoggedInError } from "../cloudflare-api.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { withInterruption } from "../interruption.ts";
import { readSettings, type Settings } from "../settings.ts";
import type { Place } from "./account.ts";
import { checkHostname } from "./addresses.ts";
import { checkCommit, checkSettings, labelCommit, localChecks } from "./checks.ts";
import { planFirstVersion } from "./first-version.ts";
import { planNextVersion } from "./next-version.ts";
import { checkStep, print, type RollOut, runSteps } from "./steps.ts";
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
 * nothing. A dry run without a login prints the checks that need an account instead of running
 * them.
 *
 * @throws an Error that names the failed step and the steps that did not run. It also tells the
 *   operator how to continue or to roll back.
 */
export async function deploy(options: DeployOptions): Promise<void> {
  await withInterruption("the deployment was complete", (signal) => rollOut(options, signal));
}

async function rollOut(
  { env, create, domain, dryRun, skipChecks, patience }: DeployOptions,
  signal: AbortSignal,
): Promise<void> {
  const check = async <T>(title: string, work: () => Promise<T>): Promise<T> => {
    const results: T[] = [];
    await runSteps([checkStep(title, async () => void results.push(await work()))], signal);
    return results[0] as T;
  };
  if (!skipChecks) await runSteps(localChecks(env), signal);
  const settings: Settings = await check(`Check the settings of ${env}`, async () => {
    const found = await readSettings(env);
    checkSettings(found);
    return found;
  });
  await check(`Check the build of ${env}`, () => checkBuild(env));
  const api = await check("Log in to Cloudflare", () => logIn(dryRun));
  const account = () => {
    if (api === null) throw new NotLoggedInError();
    return api;
  };
  const label = await labelCommit();
  const shared: RollOut = { env, settings, account, label, domain, patience, signal };
  const plan = create === undefined ? planNextVersion(shared) : planFirstVersion(shared, create);
  const accountChecks = [plan.check];
  if (domain !== undefined) {
    const work = () => checkHostname(account(), domain, settings.worker);
    accountChecks.push(checkStep(`Check that ${domain} is free`, work));
  }
  if (env === "production" && !skipChecks) {
    const work = () => checkCommit(shared);
    accountChecks.push(checkStep("Check that staging serves this commit", work));
  }
  if (api === null) {
    for (const { title } of accountChecks) print(`Not checked without a login: ${title}`);
  } else await runSteps(accountChecks, signal);
  if (dryRun) {
    for (const { title } of plan.steps()) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    return;
  }
  await runSteps(plan.steps(), signal);
}

/** Returns `null` in a dry run without a login. */
async function logIn(isDryRun: boolean): Promise<CloudflareApi | null> {
  try {
    return await CloudflareApi.open();
  } catch (error) {
    if (isDryRun && error instanceof NotLoggedInError) return null;
    throw error;
  }
}
