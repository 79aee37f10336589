import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { findBookmark } from "../time-travel/bookmarks.ts";
import { checkLiveWorker, findLiveVersion, notePassedTrial } from "./account.ts";
import { findAddresses } from "./addresses.ts";
import { attachStep } from "./first-version.ts";
import { print, type RollOut, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import { applyMigrations, applyTriggers, divideTraffic, uploadVersion } from "./wrangler-steps.ts";

/**
 * Checks that the new version would use the same databases as the deployed version, and returns the
 * steps of the deployment. The deployed version receives all traffic until the new version has been
 * tried. Until then, the deployed version has to work with databases that are already migrated.
 *
 * @throws an Error that tells the operator what to correct.
 */
export async function prepareNextVersion(rollOut: RollOut): Promise<Step[]> {
  const { env, settings, api, label, domain } = rollOut;
  const { worker } = settings;
  const live = await findLiveVersion(api, settings);
  if (live === undefined) {
    throw new Error(
      `there is no Worker ${worker}. Add --create for a first roll-out; otherwise check its name in wrangler.toml`,
    );
  }
  await checkLiveWorker(api, settings, live);
  const addresses = await findAddresses(api, settings);
  const [address] = addresses;

  let version = "";
  const message = label.message ?? env;
  const back = `npx wrangler rollback ${live.id} --env ${env}`;
  const goBack = async () => {
    try {
      await divideTraffic(env, { [live.id]: 100 }, `back from ${message}`);
      return `All traffic is back at the version before, ${live.id}. Migrations stay.`;
    } catch (error) {
      return `The rollback failed too: ${(error as Error).message}\nTo roll back: ${back}`;
    }
  };
  const tryIt = (at: string, hasTraffic: boolean) =>
    tryVersion({ env, address: at, worker, version, hasTraffic }, rollOut);
  return [
    ...databaseSteps(rollOut),
    {
      title: "Upload the new version",
      run: async () => void (version = await uploadVersion(env, label)),
      ifItFails: "The previous version still serves, with the migrated databases.",
    },
    {
      title: "Make the new version available without traffic",
      run: () => divideTraffic(env, { [live.id]: 100, [version]: 0 }, `trial of ${message}`),
      ifItFails: goBack,
    },
    { title: "Try the new version", run: () => tryIt(address, false), ifItFails: goBack },
    {
      title: "Send all traffic to the new version",
      run: () => divideTraffic(env, { [version]: 100 }, message),
      ifItFails: goBack,
    },
    // Tries again, because Durable Objects run the new version only once it receives all traffic.
    {
      title: "Try the new version with all traffic",
      run: async () => {
        await tryIt(address, true);
        await notePassedTrial(api, settings, version, message);
      },
      ifItFails: goBack,
    },
    {
      title: "Apply workers.dev, routes and cron triggers",
      run: async () => {
        await applyTriggers(env);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
        print(`The way back to the version before: ${back}`);
      },
      ifItFails: `The new version serves. To apply them: npx wrangler triggers deploy --env ${env}`,
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
}

/** Returns the steps that save a bookmark of each database and then migrate each database. */
function databaseSteps({ env }: RollOut): Step[] {
  const restore: Record<DatabaseName, string> = { orders: "", keys: "" };
  const bookmarks = DATABASE_NAMES.map((name): Step => ({
    title: `Note the state of the ${name} database`,
    run: async () => {
      const bookmark = await findBookmark({ environment: env, name });
      restore[name] =
        `npm run time-travel -- restore --env ${env} --database ${name} --bookmark ${bookmark}`;
      print(`The way back to it: ${restore[name]}`);
    },
    ifItFails: "Nothing was changed.",
  }));
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
