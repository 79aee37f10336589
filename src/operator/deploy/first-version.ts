import { sql } from "drizzle-orm";
import { cancelledOrders, orders } from "../../schema/orders.ts";
import { apiKeys, keyChanges } from "../../schema/keys.ts";
import { typedLine } from "../command-line.ts";
import { findDatabase } from "../database/d1-api.ts";
import { DATABASE_NAMES, type DatabaseName } from "../database/database.ts";
import { applyMigrations } from "../database/migrate-remote.ts";
import { openRemoteDatabase } from "../database/remote.ts";
import { isMissingTable } from "../database/remote-failure.ts";
import type { RemoteEnvironment } from "../environment.ts";
import { createDatabase, findLiveVersion, type Place, notePassedTrial } from "./account.ts";
import { attachDomain, findAddresses } from "./addresses.ts";
import { checkStep, type Plan, print, type RollOut, type Step } from "./steps.ts";
import { tryVersion } from "./trial.ts";
import { deployFirstVersion } from "./wrangler-steps.ts";

/**
 * Plans the first roll-out of an environment. The check requires that there is no Worker yet. It
 * accepts existing empty databases, so that an interrupted first roll-out can be repeated.
 */
export function planFirstVersion(rollOut: RollOut, place: Place): Plan {
  const { env, settings, account, label, domain } = rollOut;
  const { worker, databases } = settings;
  const existing = new Set<DatabaseName>();
  const check = async () => {
    if ((await findLiveVersion(account(), settings)) !== undefined) {
      throw new Error(`the Worker ${worker} exists already. Leave out --create`);
    }
    for (const name of DATABASE_NAMES) {
      const found = await findDatabase(account(), databases[name]);
      if (found === undefined) continue;
      existing.add(name);
      if (!(await isEmpty(env, name))) {
        throw new Error(
          `there is no Worker ${worker}, but the database ${databases[name]} holds data. Check the ` +
            "names in wrangler.toml: a first roll-out begins with empty databases",
        );
      }
      if ("jurisdiction" in place && found.jurisdiction !== place.jurisdiction) {
        throw new Error(
          `the database ${databases[name]} exists already, outside the jurisdiction ` +
            `${place.jurisdiction}. No database can move. It is empty: npx wrangler d1 delete ${databases[name]}`,
        );
      }
      print(`The database ${databases[name]} exists already, and stays where it is.`);
    }
  };
  const requireLive = async () => {
    const live = await findLiveVersion(account(), settings);
    if (live === undefined) throw new Error(`there is no Worker ${worker}`);
    return live;
  };
  const where = "location" in place ? `near ${place.location}` : `in ${place.jurisdiction}`;
  const again = "Run the same command again: it goes on with what exists.";
  const withoutCreate = typedLine({ "--create": false }).replace(
    / --(?:location|jurisdiction)[ =]\S+/,
    "",
  );
  const deployed = `The Worker is deployed. ${
    domain === undefined ? "A" : "The certificate of a domain or a"
  } new address can take minutes.`;
  const lineToGoOn = async () => {
    const live = await findLiveVersion(account(), settings).catch(() => undefined);
    return live === undefined ? typedLine() : withoutCreate;
  };
  const steps = () => [
    ...DATABASE_NAMES.filter((name) => !existing.has(name)).map((name): Step => ({
      title: `Create the database ${databases[name]} ${where}`,
      run: () => createDatabase(account(), databases[name], place),
      ifItFails: again,
    })),
    ...DATABASE_NAMES.map((name): Step => ({
      title: `Apply migrations to the ${name} database`,
      run: () => applyMigrations({ environment: env, name }),
      ifItFails: again,
    })),
    {
      title: "Deploy the Worker",
      run: async () => {
        await deployFirstVersion(env, label);
        await requireLive();
      },
      ifItFails: `${again} If the Worker exists by then: ${withoutCreate}`,
      again: lineToGoOn,
    },
    ...(domain === undefined ? [] : [{ ...attachStep(rollOut, domain), again: withoutCreate }]),
    {
      title: "Try the service",
      run: async () => {
        const live = await requireLive();
        const addresses = await findAddresses(account(), settings);
        if (domain !== undefined && !addresses.includes(`https://${domain}`)) {
          throw new Error(`${domain} is not attached to ${worker}`);
        }
        for (const address of addresses) {
          await tryVersion({ env, address, worker, version: live.id, hasTraffic: true }, rollOut);
        }
        await notePassedTrial(account(), settings, live.id, label.message ?? env);
        print(`Deployed ${env}: ${addresses.join(", ")}`);
      },
      ifItFails: deployed,
      again: withoutCreate,
    },
  ];
  return {
    check: { ...checkStep("Check the Worker and its databases", check), again: lineToGoOn },
    steps,
  };
}

/** Returns the step that makes a hostname an address of the Worker. */
export function attachStep({ settings, account }: RollOut, domain: string): Step {
  return {
    title: `Attach ${domain}`,
    run: () => attachDomain(account(), domain, settings.worker),
    ifItFails: `The service is deployed without ${domain}.`,
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
