import { limitsOf } from "../../rules/keys/api-key.ts";
import type { LocationHint } from "../../rules/keys/location-hints.ts";
import type { Limits, Plan } from "../../rules/limits/plans.ts";
import { databaseTime, type StoreDatabase } from "../../store/database.ts";
import {
  addKeys,
  changeKey,
  type Decide,
  type Operation,
  UnknownOutcomeError,
} from "../../store/keys/change-key.ts";
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
import { onSameStore, UsageError } from "../command-line.ts";
import { requireConfirmation } from "../confirmation.ts";
import { type StoreCommandOptions, useDatabase } from "../database/open.ts";
import { unlessAborted, withInterruption } from "../interruption.ts";
import { formatNumber } from "../terminal-text.ts";
import { currentActor } from "./actor.ts";
import { printKeys, printSecret, requireApiKey } from "./show.ts";

type UpdateOptions = StoreCommandOptions &
  Readonly<Partial<Limits & { plan: Plan; name: string; expires: Date | "never" }>>;
type CreateOptions = StoreCommandOptions &
  Readonly<Partial<Limits> & { plan: Plan; name: string; expires?: Date; near?: LocationHint }>;
type LastingOptions = StoreCommandOptions & { readonly yes: boolean };
type RotateOptions = LastingOptions & { readonly grace: number };

/** Rotating with a shorter grace period needs confirmation: clients must change their key soon. */
const SHORT_GRACE_MS = 3_600_000;
const ENDS = "This ends the present secret for good: clients that send it are answered 401.";
const FORGETS = "This forgets the counts of both windows, its ban and its earlier bans for good.";

export async function create(options: CreateOptions): Promise<void> {
  const { name, plan, expires: expiresAt, near: locationHint } = options;
  const limits = await withOptionNames(() => ownLimits(plan, options));
  const createIn = async (database: StoreDatabase) => {
    const now = await databaseTime(database.orm);
    const created = createApiKey({ name, plan, limits, expiresAt, locationHint }, now);
    const { record } = created;
    await unlessUnknown(record.id, "create", () => addKeys(database, [record], currentActor()));
    return created;
  };
  const { key, record } = await useDatabase(options, "keys", createIn, { mayMake: true });
  await printSecret(key, [record, record.createdAt], options);
  warnOfShortDay(record);
}

export async function update(id: string, options: UpdateOptions): Promise<void> {
  const { plan, name, perMinute, perDay, expires } = options;
  if ([plan, name, perMinute, perDay, expires].every((value) => value === undefined)) {
    throw new UsageError("nothing to change: give at least one option, see --help");
  }
  const expiresAt = expires === "never" ? null : expires;
  const decide: Decide = (current, now) => updateApiKey(current, { ...options, expiresAt }, now);
  const changed = await withOptionNames(() => changeKeys([id], options, "update", decide));
  printKeys(changed, options);
  for (const [key] of changed) warnOfShortDay(key);
}

export async function revoke(ids: readonly string[], options: LastingOptions): Promise<void> {
  const once = [...new Set(ids)];
  printKeys(await changeKeys(once, options, "revoke", revokeApiKey, ENDS), options);
}

export async function reset(id: string, options: LastingOptions): Promise<void> {
  printKeys(await changeKeys([id], options, "reset", resetApiKey, FORGETS), options);
}

/** Replaces only the secret of a key. The former one stays valid for `grace` ms. */
export async function rotate(id: string, options: RotateOptions): Promise<void> {
  let secret = "";
  const decide: Decide = (current, now) => {
    const { key, record } = rotateApiKey(current, now, options.grace);
    secret = key;
    return record;
  };
  const consequence = options.grace < SHORT_GRACE_MS ? ENDS : undefined;
  for (const rotated of await changeKeys([id], options, "rotate", decide, consequence)) {
    await printSecret(secret, rotated, options);
  }
}

/** Changes keys, or none if an id is unknown. First asks if there is a `consequence`. */
function changeKeys(
  ids: readonly string[],
  options: StoreCommandOptions & Partial<LastingOptions>,
  action: Operation["action"],
  decide: Decide,
  consequence?: string,
): Promise<KeyAtTime[]> {
  return useDatabase(options, "keys", async (database) => {
    const lines: string[] = [];
    for (const id of ids) {
      const { name, plan } = await requireApiKey(database.orm, id);
      lines.push(`The key ${id} in ${options.env}: ${name}, plan ${plan}.`);
    }
    if (consequence !== undefined) {
      await requireConfirmation({ yes: false, ...options }, [...lines, consequence].join("\n"));
    }
    const changed: KeyAtTime[] = [];
    for (const id of ids) {
      const operation = { action, actor: currentActor() };
      const change = () => changeKey(database, id, operation, decide);
      changed.push(await unlessUnknown(id, action, change));
    }
    return changed;
  });
}

/** Runs a change. If it is unknown whether it was stored, throws an Error that says how to go on. */
async function unlessUnknown<T>(
  id: string,
  action: Operation["action"],
  change: () => Promise<T>,
): Promise<T> {
  const command = (name: string) => `\`${onSameStore(`npm run keys -- ${name} ${id}`)}\``;
  // The second time, an update or revocation changes nothing.
  const advice = ["revoke", "update"].includes(action)
    ? "Run the same command again"
    : `Look at ${command("audit")} before you run the same command again: if the change was made, do not repeat it. If a new secret was lost with it, ${command("rotate")} makes another`;
  const unfinished = `it was known whether ${id} was changed. ${advice}`;
  try {
    return await withInterruption(unfinished, (signal) => unlessAborted(signal, change));
  } catch (cause) {
    if (!(cause instanceof UnknownOutcomeError)) throw cause;
    throw new Error(`${cause.message}. ${advice}`, { cause });
  }
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
