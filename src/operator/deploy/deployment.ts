import { retry } from "../retry.ts";
import { parseConfig } from "../../rules/config.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { CloudflareApi } from "../cloudflare-api.ts";
import { requireConfirmation } from "../confirmation.ts";
import { applyMigrations } from "../database/remote.ts";
import { readSettings, type Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";
import { type Account, lookAtAccount, PASSED_TRIAL, type Place } from "./account.ts";
import { checkCommit, readCommit } from "./checks.ts";
import { type TrialOptions, tryVersion } from "./trial.ts";
import { DATABASE_NAMES } from "../../schema/databases.ts";

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

/** Steps by their titles, and a function that says what stands if one fails. It may go back first. */
type Phase = readonly [
  onFailure: () => string | Promise<string>,
  steps: Readonly<Record<string, () => Promise<unknown>>>,
];

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
  const failed: string[] = [];
  const nothing: Phase[0] = () => "Nothing was changed.";
  const runStep = async <T>(title: string, run: () => Promise<T>, onFailure = nothing) => {
    print(`${title} ...`);
    try {
      signal.throwIfAborted();
      return await run();
    } catch (cause) {
      const { message } = cause as Error;
      const next = `${await onFailure()}\nRemove the cause, and run the same command again.`;
      if (!dryRun || signal.aborted) throw new Error(`"${title}" failed: ${message}\n${next}`);
      print(`Failed: ${message}`);
      failed.push(title);
      return undefined;
    }
  };

  const settings = await readSettings(env, folder);
  await runStep(`Check the vars of ${env}`, async () => parseConfig(settings.vars));
  await runStep("Check the build", () => runWrangler(["deploy", "--env", env, "--dry-run"]));
  const api = await runStep("Log in to Cloudflare", () =>
    CloudflareApi.open().catch((error: Error) => {
      if (!dryRun) throw error;
      return print(`No login: ${error.message}`);
    }),
  );
  const checkAccount = async <T>(title: string, run: (login: CloudflareApi) => Promise<T>) =>
    api ? runStep(title, () => run(api)) : print(`Not checked without a login: ${title}`);
  const commit = await readCommit(folder);
  const account = await checkAccount("Check the Worker and its databases", (login) =>
    lookAtAccount(login, settings, options),
  );
  if (env === "production" && !skipChecks) {
    await checkAccount("Check that staging serves this commit", (login) =>
      checkCommit(login, settings, commit, folder),
    );
  }

  const trial = { ...settings, patienceMs, triedCredentials: new Set<string>(), signal };
  const phases = plan(options, settings, commit, trial, account);
  if (dryRun || !account) {
    const titles = phases.flatMap(([, steps]) => Object.keys(steps));
    for (const title of titles) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    if (failed.length > 0) throw new Error(`a deployment would stop here: ${failed.join("; ")}`);
    return;
  }
  if (account.creations.length > 0 && !yes) {
    await requireConfirmation(env, `This creates ${account.creations.join(", ")}.`);
  }
  for (const [onFailure, steps] of phases) {
    for (const [title, run] of Object.entries(steps)) await runStep(title, run, onFailure);
  }
}

/** Returns the steps to the deployed service from what the account has; `undefined`: unknown. */
function plan(
  { env, location, jurisdiction }: DeployOptions,
  { databases, vars }: Settings,
  commit: string | undefined,
  trial: TrialOptions,
  account: Account | void,
): Phase[] {
  const { live, missing = DATABASE_NAMES } = account ?? {};
  const isFirst = account !== undefined && live === undefined;
  const previous = live?.id ?? "";
  const rollback = `npx wrangler rollback ${previous} --env ${env}`;
  let version = "";
  const upload = async (...command: string[]) => {
    const tag = commit === undefined ? [] : [`--tag=${commit}`];
    // The build of the reference page reads LIST_READS, to say whether lists can be stale.
    const build = { LIST_READS: parseConfig(vars).listReads };
    const { stdout } = await runWrangler([...command, "--env", env, ...tag], build);
    const [, id] = /^(?:Current|Worker) Version ID: (\S+)$/m.exec(stdout) ?? [];
    if (id === undefined) throw new Error("wrangler did not say which version it uploaded");
    version = id;
  };
  /** Divides the traffic in percent. A version with 0 gets only requests that select it. */
  const divide = (shares: Readonly<Record<string, number>>, ending = "") => {
    const versions = Object.entries(shares).map(([id, share]) => `${id}@${share}%`);
    const message = `--message=${commit ?? env}${ending}`;
    const args = ["versions", "deploy", ...versions, "--env", env, message, "--yes"];
    return retry(() => runWrangler(args), { retries: 2, minTimeout: 500 });
  };
  const tryNow = async (hasTraffic: boolean) => {
    const address = (await account?.findAddress()) ?? "";
    print(`  ${await tryVersion(trial, address, version, hasTraffic)}`);
  };
  const stays = "What was created or migrated stays, and what was deployed still serves.";
  const goBack = async () => {
    if (isFirst) return "The Worker is deployed. A new address can take minutes.";
    try {
      await divide({ [previous]: 100 }, ", whose trial failed");
      return `All traffic is back at the version before, ${previous}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback}`;
    }
  };
  const place = location ? `--location=${location}` : `--jurisdiction=${jurisdiction}`;
  const prepare = Object.fromEntries([
    ...missing.map((name) => [
      `Create the database ${databases[name]}${account ? "" : ", if it is missing"}`,
      () => runWrangler(["d1", "create", databases[name], place]),
    ]),
    ...DATABASE_NAMES.map((name) => [
      `Apply migrations to the ${name} database`,
      () => applyMigrations({ env, name }),
    ]),
  ]);
  const uploading = isFirst
    ? { "Deploy the Worker": () => upload("deploy") }
    : { "Upload the new version": () => upload("versions", "upload") };
  // Until the new version has passed a trial, the previous one serves with the migrated databases.
  const replace = {
    "Make the new version available without traffic": () =>
      divide({ [previous]: 100, [version]: 0 }),
    "Try the new version": () => tryNow(false),
    "Send all traffic to the new version": () => divide({ [version]: 100 }),
  };
  // Durable Objects run a version only after it gets all traffic.
  const tryAll = async () => {
    await tryNow(true);
    await divide({ [version]: 100 }, PASSED_TRIAL);
  };
  const finish = async () => {
    const { stdout } = await runWrangler(["triggers", "deploy", "--env", env]);
    print(`${stdout.trim()}\nDeployed ${env}.`);
    if (!isFirst) print(`The way back to the version before: ${rollback}`);
  };
  return [
    [() => stays, { ...prepare, ...uploading }],
    [goBack, { ...(!isFirst && replace), "Try the version with all traffic": tryAll }],
    [() => "The new version serves.", { "Apply workers.dev, routes and cron triggers": finish }],
  ];
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
