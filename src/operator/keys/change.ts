import { limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import { databaseTime, type StoreDatabase } from "../../store/database.ts";
import type { Decide, Operation } from "../../store/keys/change-key.ts";
import {
  createApiKey,
  type KeyAtTime,
  type KeyDetails,
  ownLimits,
  resetApiKey,
  revokeApiKey,
  rotateApiKey,
  updateApiKey,
} from "../../store/keys/key-settings.ts";
import { Refusal } from "../../store/refusal.ts";
import { UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { unlessAborted, withInterruption } from "../interruption.ts";
import { formatNumber } from "../terminal-text.ts";
import { addKeys, changeKey, lookFirst } from "./actor.ts";
import { printKeys, printSecret, requireApiKey } from "./show.ts";

type SettingOptions = StoreCommandOptions &
  Partial<Limits & Readonly<{ plan: Plan; name: string; expires: Date | "never" }>>;
type CreateOptions = StoreCommandOptions &
  Partial<Limits & Readonly<{ expires: Date; near: LocationHint }>> &
  Readonly<{ plan: Plan; name: string }>;
type LastingOptions = StoreCommandOptions & { readonly yes: boolean };

/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const DEFAULT_GRACE_MS = 24 * 3_600_000;
const ENDS = "This ends the present secret for good: clients that send it are answered 401.";
const FORGETS = "This forgets the counts of both windows, its ban and its earlier bans for good.";

export async function create(options: CreateOptions): Promise<void> {
  const { name, plan, expires: expiresAt = null, near: locationHint = null } = options;
  const limits = await withOptionNames(() => ownLimits(plan, options));
  const createAndStore = async (database: StoreDatabase) => {
    const now = await databaseTime(database.orm);
    const created = createApiKey({ name, plan, limits, expiresAt, locationHint }, now);
    await untilSignal(created.record.id, () => addKeys(database, [created.record]));
    return created;
  };
  const { key, record } = await useDatabase(options, "keys", createAndStore, { mayMake: true });
  await printSecret(key, [record, record.createdAt], options);
  warnOfShortDay(record);
}

export async function update(id: string, options: SettingOptions): Promise<void> {
  const { plan, name, perMinute, perDay, expires } = options;
  if ([plan, name, perMinute, perDay, expires].every((value) => value === undefined)) {
    throw new UsageError("nothing to change: give at least one option, see --help");
  }
  const expiresAt = expires === "never" ? null : expires;
  const decide: Decide = (current, now) => updateApiKey(current, { ...options, expiresAt }, now);
  const changed = await withOptionNames(() => changeInStore(id, options, "update", decide));
  printKeys([changed], options);
  warnOfShortDay(changed[0]);
}

/** Makes all secrets of keys invalid: of none, if one of the ids is unknown. */
export async function revoke(ids: readonly string[], options: LastingOptions): Promise<void> {
  const revoked = await useDatabase(options, "keys", async (database) => {
    await confirmChange(database, ids, options, ENDS);
    const changed: KeyAtTime[] = [];
    for (const id of ids) {
      const changing = () => changeKey(database, id, "revoke", revokeApiKey);
      changed.push(await untilSignal(id, changing, "revoke"));
    }
    return changed;
  });
  printKeys(revoked, options);
}

export async function reset(id: string, options: LastingOptions): Promise<void> {
  printKeys([await changeInStore(id, options, "reset", resetApiKey, FORGETS)], options);
}

/** Replaces only the secret of a key. The former one stays valid for `grace` ms, by default a day. */
export async function rotate(
  id: string,
  options: LastingOptions & { readonly grace?: number },
): Promise<void> {
  const { grace = DEFAULT_GRACE_MS } = options;
  let secret = "";
  const decide: Decide = (current, now) => {
    const rotated = rotateApiKey(current, now, grace);
    secret = rotated.key;
    return rotated.record;
  };
  const consequence = grace < SHORT_GRACE_MS ? ENDS : undefined;
  const rotated = await changeInStore(id, options, "rotate", decide, consequence);
  await printSecret(secret, rotated, options);
}

/** Changes a key of the store. First asks if there is a `consequence`. */
function changeInStore(
  id: string,
  options: StoreCommandOptions & Partial<LastingOptions>,
  action: Operation["action"],
  decide: Decide,
  consequence?: string,
): Promise<KeyAtTime> {
  const { yes = false } = options;
  return useDatabase(options, "keys", async (database) => {
    if (consequence) await confirmChange(database, [id], { ...options, yes }, consequence);
    return untilSignal(id, () => changeKey(database, id, action, decide), action);
  });
}

/** Asks before a change of keys that cannot be undone. */
async function confirmChange(
  { orm }: StoreDatabase,
  ids: readonly string[],
  options: LastingOptions,
  consequence: string,
): Promise<void> {
  const lines: string[] = [];
  for (const id of ids) {
    const { name, plan } = await requireApiKey(orm, id);
    lines.push(`The key ${id} in ${options.env}: ${name}, plan ${plan}.`);
  }
  await requireConfirmation(options, [...lines, consequence].join("\n"));
}

/** Runs a change. After a signal, throws an Error that says how to see whether it was stored. */
function untilSignal<T>(
  id: string,
  work: () => Promise<T>,
  action?: Operation["action"],
): Promise<T> {
  const unfinished = `it was known whether ${id} was changed. ${lookFirst(id, action)}`;
  return withInterruption(unfinished, (signal) => unlessAborted(signal, work));
}

/** Names the options of the command line in the refusal of limits. */
async function withOptionNames<T>(work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (cause) {
    if (!(cause instanceof Refusal) || !cause.code.startsWith("limits_")) throw cause;
    const options = cause.message.replace("perMinute and perDay", "--per-minute and --per-day");
    throw new UsageError(options.replace("the plan enterprise only", "--plan enterprise only"));
  }
}

function warnOfShortDay(key: KeyDetails): void {
  const { perMinute, perDay } = limitsOf(key);
  if (perDay >= perMinute) return;
  process.stderr.write(
    `warning: the day ends first: after ${formatNumber(perDay)} requests the key is refused for a day\n`,
  );
}
