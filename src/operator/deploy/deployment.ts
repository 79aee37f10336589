import { retry } from "../retry.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import { type CloudflareApi, logIn } from "../cloudflare-api.ts";
import { requireConfirmation } from "../confirmation.ts";
import { applyMigrations } from "../database/remote.ts";
import { checkVars, readSettings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";
import { findAddress, lookAtAccount, PASSED_TRIAL } from "./account.ts";
import { checkCommit, readCommit } from "./checks.ts";
import { tryVersion } from "./trial.ts";
import { DATABASE_NAMES } from "../../schema/databases.ts";

/** The options of `npm run deploy`. `folder`: of `wrangler.toml`, in the git repository. */
export type DeployOptions = Readonly<Record<"dryRun" | "skipChecks" | "yes", boolean>> &
  Readonly<{ env: RemoteEnvironment; location?: string; folder: string }>;

/**
 * Deploys the service: checks, asks before it creates something, and runs the steps. A dry run goes on
 * after a failed check, and prints the titles of the steps. `signal` fails the next check or step.
 *
 * @throws an Error that names the failed step and says what stands.
 */
export async function deploy(options: DeployOptions, signal: AbortSignal): Promise<void> {
  const { env, location, dryRun, skipChecks, yes, folder } = options;
  const failed: string[] = [];
  /** Says what stands after a failure. May go back first. */
  let whatStands = async () => "Nothing was changed.";
  const check = async <T>(title: string, work: () => Promise<T>): Promise<T | undefined> => {
    print(`${title} ...`);
    try {
      signal.throwIfAborted();
      return await work();
    } catch (cause) {
      const { message } = cause as Error;
      if (dryRun && !signal.aborted) {
        failed.push(title);
        return print(`Failed: ${message}`);
      }
      const next = "Remove the cause, and run the same command again.";
      throw new Error(`"${title}" failed: ${message}\n${await whatStands()}\n${next}`, { cause });
    }
  };
  const step = async (title: string, work: () => Promise<unknown>) =>
    dryRun ? print(`Would: ${title}`) : check(title, work);

  const settings = await readSettings(env, folder);
  const { databases } = settings;
  const config = await check(`Check the vars of ${env}`, async () =>
    checkVars(settings.vars, `[env.${env}.vars] in wrangler.toml`),
  );
  await check("Check the build", () => runWrangler(["deploy", "--env", env, "--dry-run"]));
  const api = await check("Log in to Cloudflare", () =>
    logIn(settings).catch((error: Error) => {
      if (!dryRun) throw error;
      return print(`No login: ${error.message}`);
    }),
  );
  if (api) print(`  Account: ${await api.describeAccount()}`);
  const checkAccount = async <T>(title: string, work: (login: CloudflareApi) => Promise<T>) =>
    api ? check(title, () => work(api)) : print(`Not checked without a login: ${title}`);
  const commit = await readCommit(folder);
  const place = { location, jurisdiction: config?.jurisdiction };
  const account = await checkAccount("Check the Worker and its databases", (login) =>
    lookAtAccount(login, settings, place),
  );
  if (env === "production" && !skipChecks) {
    await checkAccount("Check that staging serves this commit", (login) =>
      checkCommit(login, settings, commit, folder),
    );
  }
  const { live, missing = DATABASE_NAMES, consequences = [] } = account ?? {};
  if (consequences.length > 0) {
    await requireConfirmation({ env, yes: yes || dryRun }, consequences.join("\n"));
  }

  const isFirst = account !== undefined && live === undefined;
  const previous = live?.id ?? "";
  const rollback = `npx wrangler rollback ${previous} --env ${env}`;
  // The build of the reference page reads LIST_READS, to say whether lists can be stale.
  const variables = { CLOUDFLARE_ACCOUNT_ID: api?.accountId, LIST_READS: config?.listReads };
  const wrangler = (...args: string[]) => runWrangler([...args, "--env", env], variables);
  let version = "";
  const upload = async (...command: string[]) => {
    const tag = commit === undefined ? [] : [`--tag=${commit}`];
    const stdout = await wrangler(...command, ...tag);
    const [, id] = /^(?:Current|Worker) Version ID: (\S+)$/m.exec(stdout) ?? [];
    if (id === undefined) throw new Error("wrangler did not say which version it uploaded");
    version = id;
  };
  /** Divides the traffic. A version with 0 % gets only requests that select it. */
  const divide = (shares: readonly string[], ending = "") => {
    const message = `--message=${commit ?? env}${ending}`;
    const deploying = () => wrangler("versions", "deploy", ...shares, message, "--yes");
    return retry(deploying, { retries: 2, minTimeout: 500 });
  };
  const trial = { env, worker: settings.worker, triedCredentials: new Set<string>(), signal };
  const tryNow = async (hasTraffic: boolean) => {
    const url = api ? await findAddress(api, settings) : "";
    print(`  ${await tryVersion({ ...trial, url, version, hasTraffic })}`);
  };

  whatStands = async () =>
    "What was created or migrated stays, and what was deployed still serves.";
  const where = place.jurisdiction ? `jurisdiction=${place.jurisdiction}` : `location=${location}`;
  for (const name of missing) {
    await step(`Create the database ${databases[name]}${account ? "" : ", if it is missing"}`, () =>
      wrangler("d1", "create", databases[name], `--${where}`),
    );
  }
  for (const name of DATABASE_NAMES) {
    await step(`Apply migrations to the ${name} database`, () => applyMigrations({ env, name }));
  }
  if (isFirst) await step("Deploy the Worker", () => upload("deploy"));
  else await step("Upload the new version", () => upload("versions", "upload"));

  whatStands = async () => {
    if (isFirst) return "The Worker is deployed. A new address can take minutes.";
    try {
      await divide([`${previous}@100%`], ", whose trial failed");
      return `All traffic is back at the version before, ${previous}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback}`;
    }
  };
  if (!isFirst) {
    // Until the new version has passed a trial, the previous one serves with the migrated databases.
    await step("Make the new version available without traffic", () =>
      divide([`${previous}@100%`, `${version}@0%`]),
    );
    await step("Try the new version", () => tryNow(false));
    await step("Send all traffic to the new version", () => divide([`${version}@100%`]));
  }
  // Durable Objects run a version only after it gets all traffic.
  await step("Try the version with all traffic", async () => {
    await tryNow(true);
    await divide([`${version}@100%`], PASSED_TRIAL);
  });

  whatStands = async () => "The new version serves.";
  await step("Apply workers.dev, routes and cron triggers", async () => {
    print((await wrangler("triggers", "deploy")).trim());
  });
  if (!dryRun) {
    print(`Deployed ${env}.`);
    if (!isFirst) print(`The way back to the version before: ${rollback}`);
    return;
  }
  print("Dry run: nothing was changed.");
  if (failed.length > 0) throw new Error(`a deployment would stop here: ${failed.join("; ")}`);
}

const print = (line: string): undefined => void process.stdout.write(`${line}\n`);
