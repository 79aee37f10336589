import { z } from "zod";
import { CloudflareApi, NotLoggedInError } from "../cloudflare-api.ts";
import { typedLine } from "../command-line.ts";
import {
  connect,
  findBookmark,
  findDatabase,
  isMissingTable,
  sendQuery,
} from "../database/d1-api.ts";
import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { applyMigrations } from "../database/remote.ts";
import type { RemoteEnvironment } from "../arguments.ts";
import type { Settings } from "../settings.ts";
import { runWrangler } from "../wrangler.ts";
import { attachDomain, checkHostname, enabledSchema, findAddresses } from "./addresses.ts";
import {
  checkCommit,
  checkLiveWorker,
  checkReplication,
  labelCommit,
  localChecks,
  readCheckedSettings,
} from "./checks.ts";
import { type DeployOptions, print, type RollOut, runStep, runSteps, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import {
  checkBuild,
  deployFirstVersion,
  deployVersions,
  findLiveVersion,
  type LiveVersion,
  PASSED_TRIAL,
  uploadVersion,
} from "./versions.ts";

const schedulesSchema = z.object({ schedules: z.array(z.object({ cron: z.string() })) });

interface Plan {
  readonly check: Step;
  /** Returns the steps. A dry run without a login calls `steps` without running `check` first. */
  readonly steps: () => Step[];
}

/**
 * Runs all checks, which change nothing, and then the steps. If the signal is aborted, the next
 * check or step fails.
 *
 * @throws an Error that names the failed step and those that did not run, and says how to continue.
 */
export async function deploy(options: DeployOptions, signal: AbortSignal): Promise<void> {
  const { env, create, domain, dryRun, skipChecks } = options;
  const check = <T>(title: string, run: () => Promise<T>) => runStep({ title, run }, signal);
  if (!skipChecks) await runSteps(localChecks(env), signal);
  const settings = await check(`Check the settings of ${env}`, () => readCheckedSettings(env));
  await check(`Check the build of ${env}`, () => checkBuild(env));
  const login = await check("Log in to Cloudflare", () =>
    CloudflareApi.open().catch((error) => {
      if (dryRun && error instanceof NotLoggedInError) return null;
      throw error;
    }),
  );
  // The cast is safe: without a login, a dry run only prints titles and never uses `api`.
  const api = login as CloudflareApi;
  const label = await labelCommit();
  let replication: string | undefined;
  const replicationChecks: Step[] = [];
  if (settings.vars["LIST_READS"] === "nearest") {
    replicationChecks.push({
      title: `Check that ${settings.databases.orders} is replicated`,
      run: async () => void (replication = await checkReplication(api, settings)),
    });
  }
  const rollOut = { ...options, settings, api, label, replicationChecks, signal };
  const plan = create ? planFirstVersion(rollOut) : planNextVersion(rollOut);
  const accountChecks = [plan.check, ...replicationChecks];
  if (domain !== undefined) {
    accountChecks.push({
      title: `Check that ${domain} is free`,
      run: () => checkHostname(api, domain, settings.worker),
    });
  }
  if (env === "production" && !skipChecks) {
    accountChecks.push({
      title: "Check that staging serves this commit",
      run: () => checkCommit(api, settings, label),
    });
  }
  if (login === null) {
    for (const { title } of accountChecks) print(`Not checked without a login: ${title}`);
  } else await runSteps(accountChecks, signal);
  if (dryRun) {
    for (const { title } of plan.steps()) print(`Would: ${title}`);
    print("Dry run: nothing was changed.");
    return;
  }
  await runSteps(plan.steps(), signal);
  if (replication !== undefined) print(replication);
}

/**
 * Plans the first roll-out of an environment. The check accepts existing empty databases, so that
 * the operator can repeat an interrupted first roll-out.
 */
function planFirstVersion(rollOut: RollOut): Plan {
  const { env, settings, api, label, domain, location, jurisdiction } = rollOut;
  const { worker, databases } = settings;
  const existing = new Set<DatabaseName>();
  const findLive = () => findLiveVersion(api, settings);
  const check = async () => {
    if ((await findLive()) !== undefined) {
      throw new Error(`the Worker ${worker} exists already. Leave out --create`);
    }
    for (const name of DATABASE_NAMES) {
      const found = await findDatabase(api, databases[name]);
      if (found === undefined) continue;
      existing.add(name);
      if (!(await isEmpty(env, name))) {
        throw new Error(
          `there is no Worker ${worker}, but the database ${databases[name]} holds data. Check the ` +
            "names in wrangler.toml: a first roll-out begins with empty databases",
        );
      }
      if (jurisdiction !== undefined && found.jurisdiction !== jurisdiction) {
        throw new Error(
          `the database ${databases[name]} exists already, outside the jurisdiction ` +
            `${jurisdiction}. No database can move. It is empty: npx wrangler d1 delete ${databases[name]}`,
        );
      }
      print(`The database ${databases[name]} exists already, and stays where it is.`);
    }
  };
  const requireLive = async () => {
    const live = await findLive();
    if (live === undefined) throw new Error(`there is no Worker ${worker}`);
    return live;
  };
  const where = location === undefined ? `in ${jurisdiction}` : `near ${location}`;
  const ifItFails = "Run the same command again: it goes on with what exists.";
  const placement = / --(?:location|jurisdiction)[ =]\S+/;
  const withoutCreate = typedLine({ "--create": false }).replace(placement, "");
  const again = async () =>
    (await findLive().catch(() => undefined)) === undefined ? typedLine() : withoutCreate;
  const steps = () => [
    ...DATABASE_NAMES.filter((name) => !existing.has(name)).map((name): Step => ({
      title: `Create the database ${databases[name]} ${where}`,
      run: async () => {
        const body = { name: databases[name], primary_location_hint: location, jurisdiction };
        await api.call(`${api.account}/d1/database`, z.unknown(), { method: "POST", body });
      },
      ifItFails,
    })),
    ...rollOut.replicationChecks.map((step) => ({ ...step, ifItFails })),
    ...DATABASE_NAMES.map((name): Step => ({
      title: `Apply migrations to the ${name} database`,
      run: () => applyMigrations({ env, name }),
      ifItFails,
    })),
    {
      title: "Deploy the Worker",
      run: async () => {
        await deployFirstVersion(settings, label);
        await requireLive();
      },
      ifItFails: `${ifItFails} If the Worker exists by then: ${withoutCreate}`,
      again,
    },
    ...(domain === undefined ? [] : [{ ...attachStep(rollOut, domain), again: withoutCreate }]),
    {
      title: "Try the service",
      run: async () => {
        const version = (await requireLive()).id;
        const addresses = await findAddresses(api, settings);
        if (domain !== undefined && !addresses.includes(`https://${domain}`)) {
          throw new Error(`${domain} is not attached to ${worker}`);
        }
        for (const address of addresses) await tryVersion(rollOut, address, version, true);
        const message = `${label.message ?? env}${PASSED_TRIAL}`;
        await deployVersions(api, settings, { [version]: 100 }, message);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
      },
      ifItFails: `The Worker is deployed. ${
        domain === undefined ? "A" : "The certificate of a domain or a"
      } new address can take minutes.`,
      again: withoutCreate,
    },
  ];
  return { check: { title: "Check the Worker and its databases", run: check, again }, steps };
}

/**
 * Plans the deployment of a new version. Until the new version has passed a trial, the previous
 * version receives all traffic, and uses the migrated databases.
 */
function planNextVersion(rollOut: RollOut): Plan {
  const { env, settings, api, label, domain } = rollOut;
  const { worker } = settings;
  const message = label.message ?? env;
  let live: LiveVersion;
  let addresses: readonly [string, ...string[]];
  let version = "";

  const check = async () => {
    const found = await findLiveVersion(api, settings);
    if (found === undefined) {
      throw new Error(
        `there is no Worker ${worker}. Add --create for a first roll-out; otherwise check its name in wrangler.toml`,
      );
    }
    live = found;
    await checkLiveWorker(api, settings, live, label);
    addresses = await findAddresses(api, settings);
  };
  const divide = (shares: Readonly<Record<string, number>>, note: string) =>
    deployVersions(api, settings, shares, note);
  const rollback = () => `npx wrangler rollback ${live.id} --env ${env}`;
  const goBack = async () => {
    try {
      await divide({ [live.id]: 100 }, `back from ${message}`);
      return `All traffic is back at the version before, ${live.id}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback()}`;
    }
  };
  const tryAt = (address: string, hasTraffic: boolean) =>
    tryVersion(rollOut, address, version, hasTraffic);
  const steps = () => [
    ...databaseSteps(env),
    {
      title: "Upload the new version",
      run: async () => void (version = await uploadVersion(settings, label)),
      ifItFails: "The previous version still serves, with the migrated databases.",
    },
    {
      title: "Make the new version available without traffic",
      run: () => divide({ [live.id]: 100, [version]: 0 }, `trial of ${message}`),
      ifItFails: goBack,
    },
    { title: "Try the new version", run: () => tryAt(addresses[0], false), ifItFails: goBack },
    {
      title: "Send all traffic to the new version",
      run: () => divide({ [version]: 100 }, message),
      ifItFails: goBack,
    },
    // Repeats the trial, because Durable Objects run a version only after it gets all traffic.
    {
      title: "Try the new version with all traffic",
      run: async () => {
        await tryAt(addresses[0], true);
        await divide({ [version]: 100 }, `${message}${PASSED_TRIAL}`);
      },
      ifItFails: goBack,
    },
    {
      title: "Apply observability, workers.dev, routes and cron triggers",
      run: async () => {
        await applyTriggers(api, settings);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
        print(`The way back to the version before: ${rollback()}`);
      },
      ifItFails: () =>
        `The new version serves. To apply them: npx wrangler triggers deploy --env ${env}\n` +
        `The way back to the version before: ${rollback()}`,
    },
    ...(domain === undefined
      ? []
      : [
          attachStep(rollOut, domain),
          {
            title: `Try ${domain}`,
            run: () => tryAt(`https://${domain}`, true),
            ifItFails: `The service is deployed, and ${domain} is attached. Its certificate can take minutes.`,
          },
        ]),
  ];
  return { check: { title: "Check the Worker and its databases", run: check }, steps };
}

function databaseSteps(env: RemoteEnvironment): Step[] {
  const restore: Record<DatabaseName, string> = { orders: "", keys: "" };
  const bookmarks = DATABASE_NAMES.map((name): Step => ({
    title: `Note the state of the ${name} database`,
    run: async () => {
      const bookmark = await findBookmark(await connect({ env, name }));
      restore[name] =
        `npm run time-travel -- restore --env ${env} --database ${name} --bookmark ${bookmark}`;
      print(`The way back to it: ${restore[name]}`);
    },
  }));
  const migrations = DATABASE_NAMES.map((name): Step => ({
    title: `Apply migrations to the ${name} database`,
    run: () => applyMigrations({ env, name }),
    ifItFails: () =>
      "Each migration is applied whole or not at all; those before the failed one stay, and " +
      "the version that is deployed goes on serving. To undo those of this database, and every " +
      `other change to it since: ${restore[name]}`,
  }));
  return [...bookmarks, ...migrations];
}

function attachStep({ settings, api }: RollOut, domain: string): Step {
  return {
    title: `Attach ${domain}`,
    run: () => attachDomain(api, domain, settings.worker),
    ifItFails: `The service is deployed without ${domain}.`,
  };
}

async function isEmpty(env: RemoteEnvironment, name: DatabaseName): Promise<boolean> {
  const tables = name === "orders" ? ["orders", "cancelled_orders"] : ["api_keys", "key_changes"];
  const database = await connect({ env, name });
  try {
    for (const table of tables) {
      const rows = await sendQuery(database, "reads", { sql: `SELECT 1 FROM ${table} LIMIT 1` });
      if (rows.length > 0) return false;
    }
    return true;
  } catch (error) {
    if (isMissingTable(error)) return true;
    throw error;
  }
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
