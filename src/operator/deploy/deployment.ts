import { parseConfig } from "../../rules/config.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { CloudflareApi, NotLoggedInError } from "../cloudflare-api.ts";
import { requireConfirmation } from "../confirmation.ts";
import { DATABASE_NAMES } from "../database/database.ts";
import { applyMigrations } from "../database/remote.ts";
import { readSettings, type Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";
import { type Account, findAddresses, lookAtAccount, PASSED_TRIAL, type Place } from "./account.ts";
import { checkCommit, labelCommit, type VersionLabel } from "./checks.ts";
import { tryVersion } from "./trial.ts";
import { divideTraffic, upload } from "./versions.ts";

export interface DeployOptions extends Place {
  readonly env: RemoteEnvironment;
  readonly dryRun: boolean;
  /** If true, skips the checks of uncommitted files and of staging. */
  readonly skipChecks: boolean;
  /** If true, creates what is missing without asking. */
  readonly yes: boolean;
}

export interface Surroundings {
  /** The folder with `wrangler.toml`, in the git repository of the service. */
  readonly folder: string;
  /** How long a trial waits until a new version or address responds. */
  readonly patienceMs: number;
}

interface Step {
  readonly title: string;
  readonly run: () => Promise<unknown>;
  /** Says what stands after a failure of the step. May go back first. */
  readonly ifItFails: () => string | Promise<string>;
}

/**
 * Deploys the service: runs all checks, which change nothing, asks before it creates something, and
 * runs the steps from what the account has to the deployed service. A dry run goes on after a failed
 * check, and prints the titles of the steps. If `signal` is aborted, the next check or step fails.
 *
 * @throws an Error that names the failed step and says what stands.
 */
export async function deploy(
  options: DeployOptions,
  signal: AbortSignal,
  { folder, patienceMs }: Surroundings,
): Promise<void> {
  const { env, dryRun, skipChecks, yes } = options;
  const isChecked = env === "production" && !skipChecks;
  const failed: string[] = [];
  const check = async (title: string, run: () => Promise<unknown>): Promise<void> => {
    try {
      await runStep({ title, run, ifItFails: () => "Nothing was changed." }, signal);
    } catch (error) {
      if (!dryRun || signal.aborted) throw error;
      print(`Failed: ${((error as Error).cause as Error).message}`);
      failed.push(title);
    }
  };

  const settings = await readSettings(env, folder);
  await check(`Check the vars of ${env}`, async () => parseConfig(settings.vars));
  await check("Check the build", () => runWrangler(["deploy", "--env", env, "--dry-run"]));
  let login: CloudflareApi | undefined;
  await check("Log in to Cloudflare", async () => {
    login = await CloudflareApi.open().catch((error) => {
      if (dryRun && error instanceof NotLoggedInError) return undefined;
      throw error;
    });
  });
  // The cast is safe: without a login, nothing below runs that uses the API.
  const api = login as unknown as CloudflareApi;
  const label = await labelCommit(folder);
  let account: Account | undefined;
  const accountChecks: Readonly<Record<string, () => Promise<unknown>>> = {
    "Check the Worker and its databases": async () =>
      (account = await lookAtAccount(api, settings, options)),
    ...(isChecked && {
      "Check that staging serves this commit": () => checkCommit(api, settings, label, folder),
    }),
  };
  for (const [title, run] of Object.entries(accountChecks)) {
    if (api === undefined) print(`Not checked without a login: ${title}`);
    else await check(title, run);
  }
  const triedCredentials = new Set<string>();
  const tryNow = async (version: string, hasTraffic: boolean) => {
    const trial = { env, worker: settings.worker, patienceMs, triedCredentials, signal };
    const [address] = await findAddresses(api, settings);
    print(`  ${await tryVersion(trial, address, version, hasTraffic)}`);
  };
  const steps = planSteps({ ...options, settings, api, label, tryNow }, account);
  if (dryRun || account === undefined) {
    for (const { title } of steps) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    if (failed.length > 0) throw new Error(`a deployment would stop here: ${failed.join("; ")}`);
    return;
  }
  const creations = describeCreations(settings, account, options);
  if (creations.length > 0 && !yes) {
    await requireConfirmation(env, `This creates ${creations.join(", ")}.`);
  }
  for (const step of steps) await runStep(step, signal);
}

/** Describes what the deployment creates or takes over. */
function describeCreations(
  { worker, databases }: Settings,
  { live, missing, newDomains }: Account,
  { location, jurisdiction }: Place,
): string[] {
  const where = location === undefined ? `in ${jurisdiction}` : `near ${location}`;
  const existing = DATABASE_NAMES.filter((name) => !missing.includes(name));
  const uses = existing.map((name) => ` on the existing database ${databases[name]}`).join(" and");
  return [
    ...missing.map((name) => `the database ${databases[name]} ${where}`),
    ...(live === undefined ? [`the Worker ${worker}${uses}`] : []),
    ...newDomains.map((hostname) => `the address ${hostname}, whatever uses it now`),
  ];
}

interface RollOut extends DeployOptions {
  readonly settings: Settings;
  readonly api: CloudflareApi;
  readonly label: VersionLabel;
  readonly tryNow: (version: string, hasTraffic: boolean) => Promise<void>;
}

/** Returns the steps to the deployed service from what the account has; `undefined`: unknown. */
function planSteps(
  { env, location, jurisdiction, settings, api, label, tryNow }: RollOut,
  account: Account | undefined,
): Step[] {
  const { live, missing } = account ?? { missing: DATABASE_NAMES, live: undefined };
  const message = label.message ?? env;
  const previous = live?.id ?? "";
  const rollback = `npx wrangler rollback ${previous} --env ${env}`;
  let version = "";
  const stays = () => "What was created or migrated stays, and what was deployed still serves.";
  const serves = () => "The new version serves.";
  const goBack = async () => {
    if (live === undefined) return "The Worker is deployed. A new address can take minutes.";
    try {
      await divideTraffic(env, { [previous]: 100 }, `back from ${message}`);
      return `All traffic is back at the version before, ${previous}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback}`;
    }
  };
  const step = (title: string, ifItFails: Step["ifItFails"], run: Step["run"]): Step => {
    return { title, run, ifItFails };
  };
  const place = location ? [`--location=${location}`] : [`--jurisdiction=${jurisdiction}`];
  const create = missing.map((name) => {
    const title = `Create the database ${settings.databases[name]}`;
    const run = () => runWrangler(["d1", "create", settings.databases[name], ...place]);
    return step(account ? title : `${title}, if it is missing`, stays, run);
  });
  const migrate = DATABASE_NAMES.map((name) =>
    step(`Apply migrations to the ${name} database`, stays, () => applyMigrations({ env, name })),
  );
  const uploadWith = (command: Parameters<typeof upload>[0]) => async () => {
    version = await upload(command, settings, label);
  };
  const first = [step("Deploy the Worker", stays, uploadWith("deploy"))];
  // Until the new version has passed a trial, the previous one serves with the migrated databases.
  const next = [
    step("Upload the new version", stays, uploadWith("versions upload")),
    step("Make the new version available without traffic", goBack, () =>
      divideTraffic(env, { [previous]: 100, [version]: 0 }, `trial of ${message}`),
    ),
    step("Try the new version", goBack, () => tryNow(version, false)),
    step("Send all traffic to the new version", goBack, () =>
      divideTraffic(env, { [version]: 100 }, message),
    ),
  ];
  const last = [
    // Durable Objects run a version only after it gets all traffic.
    step("Try the version with all traffic", goBack, async () => {
      await tryNow(version, true);
      await divideTraffic(env, { [version]: 100 }, `${message}${PASSED_TRIAL}`);
    }),
    step("Apply workers.dev, routes and cron triggers", serves, async () => {
      await runWrangler(["triggers", "deploy", "--env", env]);
      print(`Deployed ${env}: ${(await findAddresses(api, settings)).join(", ")}`);
      if (live !== undefined) print(`The way back to the version before: ${rollback}`);
    }),
  ];
  const isFirst = account !== undefined && live === undefined;
  return [...create, ...migrate, ...(isFirst ? first : next), ...last];
}

/** Prints the title and runs a step. @throws an Error that names it and says what stands. */
async function runStep({ title, run, ifItFails }: Step, signal: AbortSignal): Promise<void> {
  print(`${title} ...`);
  try {
    signal.throwIfAborted();
    await run();
  } catch (cause) {
    throw new Error(
      `"${title}" failed: ${(cause as Error).message}\n${await ifItFails()}\n` +
        "Remove the cause, and run the same command again.",
      { cause },
    );
  }
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
