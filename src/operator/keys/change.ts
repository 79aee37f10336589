import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import { UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { databaseTime, type StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { formatNumber } from "../terminal-text.ts";
import { addKeys, changeKey, requireApiKey } from "./change-key.ts";
import { createApiKey, resetApiKey, revokeApiKey, rotateApiKey } from "./key-changes.ts";
import { printKey, printSecret } from "./show.ts";
import type { KeyDetails } from "./stored-keys.ts";

interface UpdateOptions extends StoreCommandOptions {
  readonly plan?: Plan;
  readonly name?: string;
  readonly perMinute?: number;
  readonly perDay?: number;
  readonly expires?: Date | "never";
}

interface CreateOptions extends UpdateOptions {
  readonly plan: Plan;
  readonly name: string;
  readonly expires?: Date;
  readonly near?: LocationHint;
}

interface LastingOptions extends StoreCommandOptions {
  readonly yes: boolean;
}

/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const ENDS =
  "This ends its present secret for good. Clients that send it are answered 401 afterwards.";
const FORGETS = "This forgets the counts of both windows, its ban and its earlier bans for good.";

/** Stores a new key and prints its secret. */
export async function create(options: CreateOptions): Promise<void> {
  const { name, plan, expires: expiresAt = null, near: locationHint = null } = options;
  const limits = ownLimits(plan, options);
  const createAndStore = async (database: StoreDatabase) => {
    const now = await databaseTime(database.orm);
    refusePast(expiresAt, now);
    const created = createApiKey({ name, plan, limits, expiresAt, locationHint }, now);
    await addKeys(database, [created.record]);
    return created;
  };
  const created = await useDatabase(options, "keys", createAndStore, { mayMake: true });
  await printSecret(created.key, created.record, options);
  warnOfShortDay(created.record);
}

/** Changes the settings of a key that the options name. */
export async function update(id: string, options: UpdateOptions): Promise<void> {
  const { plan, name, perMinute, perDay, expires } = options;
  if ([plan, name, perMinute, perDay, expires].every((value) => value === undefined)) {
    throw new UsageError("nothing to change: give at least one option, see --help");
  }
  const decide = (current: KeyDetails, now: Date): KeyDetails => {
    const expiresAt = expires === "never" ? null : (expires ?? current.expiresAt);
    if (expires !== undefined) refusePast(expiresAt, now);
    const nextPlan = plan ?? current.plan;
    const limits = ownLimits(nextPlan, options, current) ?? { perMinute: null, perDay: null };
    const next = { ...current, name: name ?? current.name, expiresAt, plan: nextPlan, ...limits };
    limitsOf(next); // Refuses a plan that this version does not know, before its limits are lost.
    return next;
  };
  const key = await useDatabase(options, "keys", (database) =>
    changeKey(database, id, "update", decide),
  );
  printKey(key, { json: options.json, title: "The key is now:" });
  warnOfShortDay(key);
}

/** Returns the own limits of a key with this plan: the given ones, or else its present ones. */
function ownLimits(plan: Plan, given: Partial<Limits>, current?: KeyDetails): Limits | null {
  if (plan === "enterprise") {
    const perMinute = given.perMinute ?? current?.perMinute ?? null;
    const perDay = given.perDay ?? current?.perDay ?? null;
    if (perMinute !== null && perDay !== null) return { perMinute, perDay };
    throw new UsageError("the plan enterprise needs --per-minute and --per-day");
  }
  if (given.perMinute === undefined && given.perDay === undefined) return null;
  throw new UsageError(
    `the plan ${plan} has fixed limits: --per-minute and --per-day are for --plan enterprise only`,
  );
}

function refusePast(expiresAt: Date | null, now: Date): void {
  if (expiresAt === null || expiresAt > now) return;
  throw new Error(
    `the expiry ${expiresAt.toISOString()} is in the past; \`revoke\` ends a key at once`,
  );
}

function warnOfShortDay(key: KeyDetails): void {
  const { perMinute, perDay } = limitsOf(key);
  if (perDay >= perMinute) return;
  process.stderr.write(
    `warning: the day ends first: after ${formatNumber(perDay)} requests the key is refused for a day\n`,
  );
}

/** Makes all secrets of a key invalid. */
export async function revoke(id: string, options: LastingOptions): Promise<void> {
  const key = await useDatabase(options, "keys", async (database) => {
    await confirm(database, id, ENDS, options);
    return changeKey(database, id, "revoke", revokeApiKey);
  });
  printKey(key, { json: options.json, title: "The key is revoked." });
}

/** Resets the request counts and bans of a key. */
export async function reset(id: string, options: LastingOptions): Promise<void> {
  const key = await useDatabase(options, "keys", async (database) => {
    await confirm(database, id, FORGETS, options);
    return changeKey(database, id, "reset", resetApiKey);
  });
  printKey(key, { json: options.json, title: "The key's windows and ban are reset." });
}

/**
 * Replaces only the secret of a key.
 *
 * @param options `grace`: how long the former secret stays valid, in milliseconds.
 */
export async function rotate(
  id: string,
  options: LastingOptions & { readonly grace: number },
): Promise<void> {
  const { grace } = options;
  let secret = "";
  const key = await useDatabase(options, "keys", async (database) => {
    if (grace < SHORT_GRACE_MS) await confirm(database, id, ENDS, options);
    return changeKey(database, id, "rotate", (current, now) => {
      const state = keyState(current, now.getTime());
      if (state !== "active") throw new Error(`the key is ${state}: create a new one`);
      const rotated = rotateApiKey(current, new Date(now.getTime() + grace), now);
      secret = rotated.key;
      return rotated.record;
    });
  });
  await printSecret(secret, key, options);
  if (grace === 0 && !options.json)
    process.stderr.write("The former key ends within 30 seconds.\n");
}

async function confirm(
  database: StoreDatabase,
  id: string,
  consequence: string,
  { env, yes }: LastingOptions,
): Promise<void> {
  if (env === undefined || yes) return;
  const { name, plan } = await requireApiKey(database.orm, id);
  await requireConfirmation(env, `The key ${id} in ${env}: ${name}, plan ${plan}.\n${consequence}`);
}
