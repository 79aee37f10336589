import { sql } from "drizzle-orm";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { apiKeys, keyChanges } from "../../schema/keys.ts";
import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { openRemoteDatabase } from "../database/remote.ts";
import { isMissingTable } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import {
  createDatabase,
  findExistingDatabases,
  findLiveVersion,
  type Place,
  notePassedTrial,
} from "./account.ts";
import { attachDomain, findAddresses } from "./addresses.ts";
import { print, type RollOut, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import { applyMigrations, deployFirstVersion } from "./wrangler-steps.ts";

/**
 * Checks that an environment has no service yet, and returns the steps that create one. Accepts
 * existing empty databases, so that an interrupted first roll-out can be repeated.
 *
 * @throws an Error if the Worker exists, or if a database holds data.
 */
export async function prepareFirstVersion(rollOut: RollOut, place: Place): Promise<Step[]> {
  const { env, settings, api, label, domain } = rollOut;
  const { worker, databases } = settings;
  if ((await findLiveVersion(api, settings)) !== undefined) {
    throw new Error(`the Worker ${worker} exists already. Leave out --create`);
  }
  const existing = await findExistingDatabases(api, settings);
  for (const [name, jurisdiction] of existing) {
    if (!(await isEmpty(env, name))) {
      throw new Error(
        `there is no Worker ${worker}, but the database ${databases[name]} holds data. Check the ` +
          "names in wrangler.toml: a first roll-out begins with empty databases",
      );
    }
    if ("jurisdiction" in place && jurisdiction !== place.jurisdiction) {
      throw new Error(
        `the database ${databases[name]} exists already, outside the jurisdiction ` +
          `${place.jurisdiction}. No database can move. It is empty: npx wrangler d1 delete ${databases[name]}`,
      );
    }
    print(`The database ${databases[name]} exists already, and stays where it is.`);
  }
  const missing = DATABASE_NAMES.filter((name) => !existing.has(name));
  const where = "location" in place ? `near ${place.location}` : `in ${place.jurisdiction}`;
  const again = "Run the same command again: it goes on with what exists.";
  const deployed = `The Worker is deployed. ${
    domain === undefined ? "A" : "The certificate of a domain or a"
  } new address can take minutes. Then run \`npm run deploy -- --env ${env}\` without --create.`;
  return [
    ...missing.map((name): Step => ({
      title: `Create the database ${databases[name]} ${where}`,
      run: () => createDatabase(api, databases[name], place),
      ifItFails: again,
    })),
    ...DATABASE_NAMES.map((name): Step => ({
      title: `Apply migrations to the ${name} database`,
      run: () => applyMigrations({ environment: env, name }),
      ifItFails: again,
    })),
    {
      title: "Deploy the Worker",
      run: () => deployFirstVersion(env, label),
      ifItFails: again,
    },
    ...(domain === undefined ? [] : [attachStep(rollOut, domain)]),
    {
      title: "Try the service",
      run: async () => {
        const live = await findLiveVersion(api, settings);
        const addresses = await findAddresses(api, settings);
        const version = live?.id ?? "";
        for (const address of addresses) {
          await tryVersion({ env, address, worker, version, hasTraffic: true }, rollOut);
        }
        await notePassedTrial(api, settings, version, label.message ?? env);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
      },
      ifItFails: deployed,
    },
  ];
}

/** Returns the step that makes a hostname an address of the Worker. */
export function attachStep({ env, settings, api }: RollOut, domain: string): Step {
  return {
    title: `Attach ${domain}`,
    run: () => attachDomain(api, domain, settings.worker),
    ifItFails: `The service is deployed without ${domain}. To attach it: npm run deploy -- --env ${env} --domain ${domain}`,
  };
}

async function isEmpty(environment: RemoteEnvironment, name: DatabaseName): Promise<boolean> {
  const { orm } = await openRemoteDatabase({ environment, name });
  const tables = name === "orders" ? [orders, cancelledOrders] : [apiKeys, keyChanges];
  try {
    for (const table of tables) {
      const rows = orm.select({ row: sql`1` }).from(table);
      if ((await rows.limit(1)).length > 0) return false;
    }
    return true;
  } catch (error) {
    if (isMissingTable(error)) return true;
    throw error;
  }
}
