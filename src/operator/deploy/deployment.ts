import { z } from "zod";
import { CloudflareApi, NotLoggedInError } from "../cloudflare-api.ts";
import { requireConfirmation } from "../confirmation.ts";
import { connect, findBookmark } from "../database/d1-api.ts";
import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { applyMigrations } from "../database/remote.ts";
import type { Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";
import {
  type Account,
  checkHostname,
  enabledSchema,
  findAddresses,
  lookAtAccount,
} from "./account.ts";
import {
  checkCommit,
  checkReplication,
  labelCommit,
  localChecks,
  readCheckedSettings,
} from "./checks.ts";
import { type DeployOptions, print, type RollOut, runStep, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import {
  checkBuild,
  deployFirstVersion,
  deployVersions,
  findLiveVersion,
  PASSED_TRIAL,
  uploadVersion,
} from "./versions.ts";

const schedulesSchema = z.object({ schedules: z.array(z.object({ cron: z.string() })) });

/** The account of a dry run without a login, or whose checks fail. */
const UNKNOWN_ACCOUNT: Account = { missing: DATABASE_NAMES };

/**
 * Runs all checks, which change nothing, asks before it creates something, and then runs the steps.
 * If the signal is aborted, the next check or step fails. A dry run goes on after a failed check.
 *
 * @throws an Error that names the failed step and says what was changed.
 */
export async function deploy(
  options: DeployOptions,
  signal: AbortSignal,
  patienceMs: number,
): Promise<void> {
  const { env, dryRun, skipChecks, yes } = options;
  const failed: string[] = [];
  const check = async <T>(title: string, run: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await runStep({ title, run }, signal);
    } catch (error) {
      if (!dryRun || signal.aborted) throw error;
      const { message } = (error as Error).cause as Error;
      print(`Failed: ${message}`);
      failed.push(title);
      return undefined;
    }
  };
  if (!skipChecks) for (const { title, run } of localChecks(env)) await check(title, run);
  const settings = await runStep(
    { title: `Check the settings of ${env}`, run: () => readCheckedSettings(env) },
    signal,
  );
  await check(`Check the build of ${env}`, () => checkBuild(env));
  const login = await check("Log in to Cloudflare", () =>
    CloudflareApi.open().catch((error) => {
      if (dryRun && error instanceof NotLoggedInError) return undefined;
      throw error;
    }),
  );
  // The cast is safe: without a login, a dry run only prints titles and never uses `api`.
  const api = login as CloudflareApi;
  const rollOut: RollOut = {
    ...options,
    settings,
    api,
    label: await labelCommit(),
    signal,
    patienceMs,
    triedCredentials: new Set(),
  };
  let account = UNKNOWN_ACCOUNT;
  const accountChecks: Readonly<Record<string, () => Promise<void>>> = {
    "Check the Worker and its databases": async () => void (account = await lookAtAccount(rollOut)),
    ...(settings.vars["LIST_READS"] === "nearest" && {
      [`Check that ${settings.databases.orders} is replicated`]: () =>
        checkReplication(api, settings),
    }),
    ...Object.fromEntries(
      settings.customDomains.map((hostname) => [
        `Check that ${hostname} is free`,
        () => checkHostname(api, hostname, settings.worker),
      ]),
    ),
    ...(env === "production" &&
      !skipChecks && {
        "Check that staging serves this commit": () => checkCommit(api, settings, rollOut.label),
      }),
  };
  for (const [title, run] of Object.entries(accountChecks)) {
    if (login === undefined) print(`Not checked without a login: ${title}`);
    else await check(title, run);
  }
  const steps = planSteps(rollOut, account);
  if (dryRun) {
    for (const { title } of steps) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    if (failed.length > 0) throw new Error(`a deployment would stop here: ${failed.join("; ")}`);
    return;
  }
  const creations = creationsOf(rollOut, account);
  if (creations.length > 0 && !yes) {
    await requireConfirmation(env, `This creates ${creations.join(", ")}.`);
  }
  for (const step of steps) await runStep(step, signal);
}

const CREATED = "What has been created stays.";

/** Describes what the deployment creates. */
function creationsOf({ settings, ...place }: RollOut, { live, missing }: Account): string[] {
  const { location, jurisdiction } = place;
  const where = location === undefined ? `in ${jurisdiction ?? "no place"}` : `near ${location}`;
  return [
    ...missing.map((name) => `the database ${settings.databases[name]} ${where}`),
    ...(live === undefined ? [`the Worker ${settings.worker}`] : []),
  ];
}

/** Returns the steps that lead from what the account has to the deployed service. */
function planSteps(rollOut: RollOut, account: Account): Step[] {
  const { settings, api, location, jurisdiction } = rollOut;
  const isUnknown = account === UNKNOWN_ACCOUNT;
  const create = account.missing.map((name): Step => ({
    title: `Create the database ${settings.databases[name]}${isUnknown ? ", if it is missing" : ""}`,
    run: async () => {
      const body = {
        name: settings.databases[name],
        primary_location_hint: location,
        jurisdiction,
      };
      await api.call(`${api.account}/d1/database`, z.unknown(), { method: "POST", body });
    },
    ifItFails: CREATED,
  }));
  const migrate = DATABASE_NAMES.map((name) => migrationStep(rollOut, account, name));
  const isFirst = account.live === undefined && !isUnknown;
  const roll = isFirst ? firstVersion(rollOut) : nextVersion(rollOut, account);
  return [...create, ...migrate, ...roll];
}

/** Applies the migrations of a database. If it is in use, first prints the way back. */
function migrationStep(
  { env, settings: { databases } }: RollOut,
  { live }: Account,
  name: DatabaseName,
): Step {
  let wayBack = "";
  return {
    title: `Apply migrations to the ${name} database`,
    run: async () => {
      if (live !== undefined) {
        const bookmark = await findBookmark(await connect({ env, name }));
        const restore =
          name === "keys"
            ? `npm run keys -- restore --env ${env}`
            : `npx wrangler d1 time-travel restore ${databases.orders} --env ${env}`;
        wayBack = `The way back to the ${name} before: ${restore} --bookmark=${bookmark}`;
        print(wayBack);
      }
      await applyMigrations({ env, name });
    },
    ifItFails: () =>
      `Each migration is applied whole or not at all, and those before it stay. What is deployed goes on serving.\n${wayBack}`.trim(),
  };
}

/** Deploys the first version of the Worker. */
function firstVersion(rollOut: RollOut): Step[] {
  const { env, settings, api, label } = rollOut;
  const findLive = async () => {
    const live = await findLiveVersion(api, settings);
    if (live === undefined) throw new Error(`there is no Worker ${settings.worker}`);
    return live;
  };
  return [
    {
      title: "Deploy the Worker",
      run: async () => {
        await deployFirstVersion(settings, label);
        await findLive();
      },
      ifItFails: CREATED,
    },
    {
      title: "Try the service",
      run: async () => {
        const { id } = await findLive();
        const addresses = await findAddresses(api, settings);
        for (const address of addresses) await tryVersion(rollOut, address, id, true);
        const message = `${label.message ?? env}${PASSED_TRIAL}`;
        await deployVersions(api, settings, { [id]: 100 }, message);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
      },
      ifItFails: "The Worker is deployed. A new address can take minutes.",
    },
  ];
}

/**
 * Deploys a new version. Until it has passed a trial, the previous version receives all traffic, and
 * uses the migrated databases.
 */
function nextVersion(rollOut: RollOut, { live, addresses }: Account): Step[] {
  const { env, settings, api, label } = rollOut;
  const message = label.message ?? env;
  const previous = live?.id ?? "";
  const [address = ""] = addresses ?? [];
  let version = "";
  const divide = (shares: Readonly<Record<string, number>>, note: string) =>
    deployVersions(api, settings, shares, note);
  const rollback = `npx wrangler rollback ${previous} --env ${env}`;
  const ifItFails = async () => {
    try {
      await divide({ [previous]: 100 }, `back from ${message}`);
      return `All traffic is back at the version before, ${previous}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback}`;
    }
  };
  return [
    {
      title: "Upload the new version",
      run: async () => void (version = await uploadVersion(settings, label)),
      ifItFails: "The previous version still serves, with the migrated databases.",
    },
    {
      title: "Make the new version available without traffic",
      run: () => divide({ [previous]: 100, [version]: 0 }, `trial of ${message}`),
      ifItFails,
    },
    {
      title: "Try the new version",
      run: () => tryVersion(rollOut, address, version, false),
      ifItFails,
    },
    {
      title: "Send all traffic to the new version",
      run: () => divide({ [version]: 100 }, message),
      ifItFails,
    },
    // Repeats the trial, because Durable Objects run a version only after it gets all traffic.
    {
      title: "Try the new version with all traffic",
      run: async () => {
        await tryVersion(rollOut, address, version, true);
        await divide({ [version]: 100 }, `${message}${PASSED_TRIAL}`);
      },
      ifItFails,
    },
    {
      title: "Apply observability, workers.dev, routes and cron triggers",
      run: async () => {
        await applyTriggers(api, settings);
        print(`Deployed ${env}: ${(await findAddresses(api, settings)).join(", ")}`);
        print(`The way back to the version before: ${rollback}`);
      },
      ifItFails: `The new version serves. The way back to the version before: ${rollback}`,
    },
  ];
}

async function applyTriggers(
  api: CloudflareApi,
  { env, worker, unversioned, isOnWorkersDev, crons }: Settings,
): Promise<void> {
  const script = `${api.account}/workers/scripts/${worker}`;
  const settings = { method: "PATCH", body: unversioned } as const;
  await api.call(`${script}/script-settings`, z.unknown(), settings);
  await runWrangler(["triggers", "deploy", "--env", env], { isShielded: true });
  const { schedules } = await api.call(`${script}/schedules`, schedulesSchema);
  const found = schedules.map(({ cron }) => cron);
  const { enabled } = await api.call(`${script}/subdomain`, enabledSchema);
  if (enabled !== isOnWorkersDev || found.toSorted().join() !== crons.toSorted().join()) {
    throw new Error("Cloudflare reported success, but workers.dev or the cron triggers differ");
  }
}
