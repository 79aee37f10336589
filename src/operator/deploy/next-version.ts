import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { connect, findBookmark } from "../database/d1-api.ts";
import { applyMigrations } from "../database/migrate-remote.ts";
import { retrying } from "../database/remote.ts";
import {
  checkLiveWorker,
  deployVersions,
  findLiveVersion,
  type LiveVersion,
  notePassedTrial,
} from "./account.ts";
import { findAddresses } from "./addresses.ts";
import { attachStep } from "./first-version.ts";
import { checkStep, type Plan, print, type RollOut, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import { applyTriggers, uploadVersion } from "./wrangler-steps.ts";

/**
 * Plans the deployment of a version that takes the place of another one. The check requires that
 * the new version would use the same databases as the deployed version. The deployed version
 * receives all traffic until the new version has been tried. Until then, the deployed version has
 * to work with databases that are already migrated.
 */
export function planNextVersion(rollOut: RollOut): Plan {
  const { env, settings, account, label, domain } = rollOut;
  const { worker } = settings;
  const message = label.message ?? env;
  let live: LiveVersion;
  let addresses: readonly [string, ...string[]];
  let version = "";

  const check = async () => {
    const found = await findLiveVersion(account(), settings);
    if (found === undefined) {
      throw new Error(
        `there is no Worker ${worker}. Add --create for a first roll-out; otherwise check its name in wrangler.toml`,
      );
    }
    live = found;
    await checkLiveWorker(account(), settings, live, label);
    addresses = await findAddresses(account(), settings);
  };
  const divide = (shares: Readonly<Record<string, number>>, note: string) =>
    deployVersions(account(), settings, shares, note);
  const rollback = () => `npx wrangler rollback ${live.id} --env ${env}`;
  const goBack = async () => {
    try {
      await divide({ [live.id]: 100 }, `back from ${message}`);
      return `All traffic is back at the version before, ${live.id}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${rollback()}`;
    }
  };
  const tryIt = (address: string, hasTraffic: boolean) =>
    tryVersion({ env, address, worker, version, hasTraffic }, rollOut);
  const steps = () => [
    ...databaseSteps(rollOut),
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
    { title: "Try the new version", run: () => tryIt(addresses[0], false), ifItFails: goBack },
    {
      title: "Send all traffic to the new version",
      run: () => divide({ [version]: 100 }, message),
      ifItFails: goBack,
    },
    // Tries the new version again, because Durable Objects run the new version only once it
    // receives all traffic.
    {
      title: "Try the new version with all traffic",
      run: async () => {
        await tryIt(addresses[0], true);
        await notePassedTrial(account(), settings, version, message);
      },
      ifItFails: goBack,
    },
    {
      title: "Apply observability, workers.dev, routes and cron triggers",
      run: async () => {
        await applyTriggers(account(), settings);
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
            run: () => tryIt(`https://${domain}`, true),
            ifItFails: `The service is deployed, and ${domain} is attached. Its certificate can take minutes.`,
          },
        ]),
  ];
  return { check: checkStep("Check the Worker and its databases", check), steps };
}

/** Returns the steps that save a bookmark of each database and then migrate each database. */
function databaseSteps({ env }: RollOut): Step[] {
  const restore: Record<DatabaseName, string> = { orders: "", keys: "" };
  const bookmarks = DATABASE_NAMES.map((name): Step => {
    const target = { environment: env, name };
    return {
      title: `Note the state of the ${name} database`,
      run: async () => {
        const bookmark = await retrying(target, "reads", async () =>
          findBookmark(await connect(target)),
        );
        restore[name] =
          `npm run time-travel -- restore --env ${env} --database ${name} --bookmark ${bookmark}`;
        print(`The way back to it: ${restore[name]}`);
      },
      ifItFails: "Nothing was changed.",
    };
  });
  const migrations = DATABASE_NAMES.map((name): Step => ({
    title: `Apply migrations to the ${name} database`,
    run: () => applyMigrations({ environment: env, name }),
    ifItFails: () =>
      "Each migration is applied whole or not at all; those before the failed one stay, and " +
      "the version that is deployed goes on serving. To undo those of this database, and every " +
      `other change to it since: ${restore[name]}`,
  }));
  return [...bookmarks, ...migrations];
}
