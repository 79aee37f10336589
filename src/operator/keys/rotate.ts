import { type Command, Option } from "commander";
import { rotateApiKey } from "../key-store/administration.ts";
import { keyState } from "../../worker/api-keys/api-key.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { durationParser } from "../arguments.ts";
import { onSameStore } from "../command-line.ts";
import { yesOption } from "../confirmation.ts";
import { useDatabase } from "../database/open.ts";
import { changeKey } from "../key-store/change-key.ts";
import { confirmChange, type LastingOptions } from "./revoke.ts";
import { printSecret } from "./print-keys.ts";

const DEFAULT_GRACE = "24h";
const MAX_GRACE_DAYS = 90;
/**
 * If `--grace` is shorter than this, the command asks for confirmation, because clients have little
 * time to change to the new key.
 */
const SHORT_GRACE_MS = 3_600_000;
const parseGrace = durationParser(MAX_GRACE_DAYS);

const EXAMPLES = `
Examples:
  $ npm run keys -- rotate key_abc                 the former key ends in ${DEFAULT_GRACE}
  $ npm run keys -- rotate key_abc --grace 7d
  $ npm run keys -- rotate key_abc --grace 0       the key has leaked: end it within 30 seconds

The former and the new key share one id, plan, limits, request counts and bans. Later changes apply to
both keys. If you rotate a key again during its grace, earlier former keys become invalid no later than
the key that was just replaced. The new key is shown once. With --env and a grace of less than an hour,
the command asks for confirmation.`;

interface RotateOptions extends LastingOptions {
  /** How long the former secret stays valid, in milliseconds. */
  readonly grace: number;
}

/** Adds the options and the action of `keys rotate`, which replaces only the secret of a key. */
export function defineRotate(command: Command): void {
  command
    .description("replace a key by a new key with the same id, plan and counts")
    .addOption(
      new Option(
        "--grace <duration>",
        `how long the former key stays valid: 90m, 24h, 7d or 0, at most ${MAX_GRACE_DAYS}d`,
      )
        .argParser(parseGrace)
        .default(parseGrace(DEFAULT_GRACE), DEFAULT_GRACE),
    )
    .addOption(yesOption())
    .addHelpText("after", EXAMPLES)
    .action(rotate);
}

async function rotate(id: string, options: RotateOptions): Promise<void> {
  let secret = "";
  const key = await useDatabase(options, "keys", async (database) => {
    if (options.grace < SHORT_GRACE_MS) await confirmChange(database, id, "end", options);
    return changeKey(database, id, "rotate", (current, now) => {
      refuseEnded(current, now);
      const formerEndsAt = new Date(now.getTime() + options.grace);
      const rotated = rotateApiKey(current, formerEndsAt, now);
      secret = rotated.key;
      return rotated.record;
    });
  });
  printSecret(secret, key, options);
  if (options.grace === 0 && !options.json) {
    process.stderr.write(`The former key ends within 30 seconds.\n`);
  }
}

function refuseEnded(key: KeyDetails, now: Date): void {
  const state = keyState(key, now.getTime());
  if (state === "active") return;
  const create = onSameStore("npm run keys -- create");
  throw new Error(`the key is ${state}: \`${create}\` creates a new one`);
}
