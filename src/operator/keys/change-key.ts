import { hostname } from "node:os";
import { isDeepStrictEqual } from "node:util";
import type { SQLWrapper } from "drizzle-orm";
import { retry } from "../retry.ts";
import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import { isName } from "../arguments.ts";
import { onSameStore, UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { databaseTime, type StoreDatabase } from "../database/database.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { unlessAborted, withInterruption } from "../interruption.ts";
import { formatNumber } from "../terminal-text.ts";
import {
  change,
  createApiKey,
  findApiKey,
  type KeyDetails,
  NO_LIMITS,
  type Operation,
  OVERTAKEN,
  resetApiKey,
  revokeApiKey,
  rotateApiKey,
} from "./key-changes.ts";
import { type KeyAtTime, printKey, printSecret, requireApiKey } from "./show.ts";

interface SettingOptions extends StoreCommandOptions, Partial<Limits> {
  readonly plan?: Plan;
  readonly name?: string;
  readonly expires?: Date | "never";
}

interface CreateOptions extends SettingOptions {
  readonly plan: Plan;
  readonly name: string;
  readonly expires?: Date;
  readonly near?: LocationHint;
}

type LastingOptions = StoreCommandOptions & { readonly yes: boolean };

/** Returns the changed key. `now` is the database's time. */
type Decide = (current: KeyDetails, now: Date) => KeyDetails;

/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const DEFAULT_GRACE_MS = 24 * 3_600_000;
const ENDS = "This ends its present secret for good: clients that send it are answered 401.";
const FORGETS = "This forgets the counts of both windows, its ban and its earlier bans for good.";

/** Stores a new key and prints its secret. */
export async function create(options: CreateOptions): Promise<void> {
  const { name, plan, expires: expiresAt = null, near: locationHint = null } = options;
  const limits = ownLimits(plan, options);
  const createAndStore = async (database: StoreDatabase) => {
    const now = await databaseTime(database.orm);
    refusePast(expiresAt, now);
    const created = createApiKey({ name, plan, limits, expiresAt, locationHint }, now);
    await untilSignal(created.record.id, () => addKeys(database, [created.record]));
    return created;
  };
  const { key, record } = await useDatabase(options, "keys", createAndStore, { mayMake: true });
  await printSecret(key, [record, record.createdAt], options);
  warnOfShortDay(record);
}

/** Changes the settings of a key that the options name. */
export async function update(id: string, options: SettingOptions): Promise<void> {
  const { plan, name, perMinute, perDay, expires } = options;
  if ([plan, name, perMinute, perDay, expires].every((value) => value === undefined)) {
    throw new UsageError("nothing to change: give at least one option, see --help");
  }
  const decide: Decide = (current, now) => {
    const expiresAt = expires === "never" ? null : (expires ?? current.expiresAt);
    if (expires !== undefined) refusePast(expiresAt, now);
    const nextPlan = plan ?? current.plan;
    const limits = ownLimits(nextPlan, options, current) ?? NO_LIMITS;
    const next = { ...current, name: name ?? current.name, expiresAt, plan: nextPlan, ...limits };
    limitsOf(next); // Refuses a plan that this version does not know, before its limits are lost.
    return next;
  };
  const changed = await changeInStore(id, options, "update", decide);
  printKey(changed, options);
  warnOfShortDay(changed[0]);
}

/** Makes all secrets of a key invalid. */
export async function revoke(id: string, options: LastingOptions): Promise<void> {
  printKey(await changeInStore(id, options, "revoke", revokeApiKey, ENDS), options);
}

/** Resets the request counts and bans of a key. */
export async function reset(id: string, options: LastingOptions): Promise<void> {
  printKey(await changeInStore(id, options, "reset", resetApiKey, FORGETS), options);
}

/** Replaces only the secret of a key. The former one stays valid for `grace` ms, by default a day. */
export async function rotate(
  id: string,
  options: LastingOptions & { readonly grace?: number },
): Promise<void> {
  const { grace = DEFAULT_GRACE_MS } = options;
  let secret = "";
  const decide: Decide = (current, now) => {
    const state = keyState(current, now.getTime());
    if (state !== "active") throw new Error(`the key is ${state}: create a new one`);
    const rotated = rotateApiKey(current, new Date(now.getTime() + grace));
    secret = rotated.key;
    return rotated.record;
  };
  const consequence = grace < SHORT_GRACE_MS ? ENDS : undefined;
  const rotated = await changeInStore(id, options, "rotate", decide, consequence);
  await printSecret(secret, rotated, options);
}

/** Changes a key of the store. In a deployed environment, first asks if there is a `consequence`. */
function changeInStore(
  id: string,
  options: StoreCommandOptions & Partial<LastingOptions>,
  action: Operation["action"],
  decide: Decide,
  consequence?: string,
): Promise<KeyAtTime> {
  const { env, yes } = options;
  return useDatabase(options, "keys", async (database) => {
    if (consequence !== undefined && env !== undefined && yes !== true) {
      const { name, plan } = await requireApiKey(database.orm, id);
      const key = `The key ${id} in ${env}: ${name}, plan ${plan}.`;
      await requireConfirmation(env, `${key}\n${consequence}`);
    }
    return untilSignal(id, () => changeKey(database, id, action, decide));
  });
}

/** Runs a change. After a signal, throws an Error that says how to see whether it was stored. */
function untilSignal<T>(id: string, work: () => Promise<T>): Promise<T> {
  const unfinished = `it was known whether ${id} was changed. ${lookFirst(id)}`;
  return withInterruption(unfinished, (signal) => unlessAborted(signal, work));
}

/** Says how to go on after a change of a key that was perhaps stored. */
function lookFirst(id: string): string {
  const command = (name: string) => `\`${onSameStore(`npm run keys -- ${name} ${id}`)}\``;
  return `Look at ${command("audit")} before you run the same command again: if the change was made, do not repeat it. If a new secret was lost with it, ${command("rotate")} makes another`;
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

/** Stores new keys and records them in the audit trail. */
export async function addKeys(database: StoreDatabase, keys: readonly KeyDetails[]): Promise<void> {
  const actor = currentActor();
  const statements = keys.flatMap((key) => {
    return change(database.orm, undefined, key, { action: "create", actor, at: key.createdAt });
  });
  await store(database, statements, keys);
}

/**
 * Changes a key and records the change in the audit trail. Writes nothing if nothing changes.
 *
 * @param decide runs again if another operator changes the key meanwhile.
 * @returns the key, and the time of the database before the change.
 * @throws every error of `decide`; an Error for the operator if no key has this id.
 */
export async function changeKey(
  database: StoreDatabase,
  id: string,
  action: Operation["action"],
  decide: Decide,
): Promise<KeyAtTime> {
  const actor = currentActor();
  const attempt = async (): Promise<KeyAtTime> => {
    const at = await databaseTime(database.orm);
    const before = await requireApiKey(database.orm, id);
    const decided = decide(before, at);
    if (isDeepStrictEqual(before, decided)) return [before, at];
    const after = { ...decided, revision: before.revision + 1 };
    await store(database, change(database.orm, before, after, { action, actor, at }), [after]);
    return [after, at];
  };
  const shouldRetry = ({ error }: { readonly error: Error }) => OVERTAKEN.test(error.message);
  const patience = { retries: 10, minTimeout: 20, maxTimeout: 500, randomize: true };
  return retry(attempt, { ...patience, shouldRetry });
}

// After an error, looks the keys up: perhaps the connection failed after the transaction. Does not
// throw if the keys are stored, because the caller must print their secrets.
async function store(
  database: StoreDatabase,
  statements: readonly SQLWrapper[],
  keys: readonly KeyDetails[],
): Promise<void> {
  try {
    await database.transaction(statements);
  } catch (error) {
    const looking = keys.map((key) => findApiKey(database.orm, key.id));
    const stored = await Promise.all(looking).catch(() => null);
    if (stored === null) {
      const advice = keys.map(({ id }) => lookFirst(id)).join(". ");
      throw new Error(`${(error as Error).message}. ${advice}`, { cause: error });
    }
    // Requests may ban a key meanwhile.
    const withoutBan = (key?: KeyDetails) => ({ ...key, bannedUntil: null });
    if (!isDeepStrictEqual(stored.map(withoutBan), keys.map(withoutBan))) throw error;
  }
}

/**
 * Returns who changes a key, for the audit trail: `STORE_ORDERS_ACTOR`, or else `account@machine`.
 *
 * @throws {UsageError} if the environment variable is not a name.
 */
export function currentActor(): string {
  const { STORE_ORDERS_ACTOR: named, USER: account = `uid ${process.getuid?.()}` } = process.env;
  if (!named) return `${account}@${hostname()}`;
  if (isName(named)) return named;
  throw new UsageError("STORE_ORDERS_ACTOR is no name: set it to one line of up to 100 characters");
}
