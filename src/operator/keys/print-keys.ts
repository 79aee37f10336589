import { Table } from "console-table-printer";
import { keyState } from "../../worker/api-keys/api-key.ts";
import { toKeyJson } from "../key-store/key-json.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { printJson } from "../command-line.ts";

/**
 * Prints one key for `--json`, or else as a table under a sentence that says what happened, with the
 * former keys that are still valid.
 */
export function printKey(key: KeyDetails, options: { json: boolean; title?: string }): void {
  const now = new Date();
  if (options.json) return printJson(toKeyJson(key, now));
  if (options.title !== undefined) process.stdout.write(`${options.title}\n`);
  printTable([key], now);
  for (const end of validFormerKeyEnds(key, now)) {
    process.stdout.write(`A former key is valid beside it until ${end.toISOString()}.\n`);
  }
}

/** Prints many keys: for `--json` one array, or else a table, or `none` where there are no keys. */
export function printKeys(
  keys: readonly KeyDetails[],
  options: { json: boolean; none: string },
): void {
  const now = new Date();
  if (options.json) return printJson(keys.map((key) => toKeyJson(key, now)));
  if (keys.length > 0) return printTable(keys, now);
  process.stdout.write(`${options.none}\n`);
}

function printTable(keys: readonly KeyDetails[], now: Date): void {
  const isAnyInGrace = keys.some((key) => validFormerKeyEnds(key, now).length > 0);
  const isAnyBanned = keys.some((key) => toKeyJson(key, now).bannedUntil !== null);
  const table = new Table({
    shouldDisableColors: true,
    columns: [
      { name: "id", alignment: "left" },
      { name: "name", alignment: "left" },
      { name: "ending", title: "key ends in", alignment: "left" },
      { name: "plan", alignment: "left" },
      { name: "perMinute", title: "per minute" },
      { name: "perDay", title: "per day" },
      { name: "state", alignment: "left" },
      { name: "created", alignment: "left" },
      { name: "expires", alignment: "left" },
      { name: "revoked", alignment: "left" },
      ...(isAnyBanned
        ? [{ name: "bannedUntil", title: "banned until", alignment: "left" } as const]
        : []),
      ...(isAnyInGrace
        ? [{ name: "formerUntil", title: "former key until", alignment: "left" } as const]
        : []),
    ],
  });
  for (const key of keys) {
    const record = toKeyJson(key, now);
    const { id, name, plan, perMinute, perDay, state } = record;
    table.addRow({
      id,
      name,
      ending: record.lastFour ?? "unknown",
      plan,
      perMinute,
      perDay,
      state,
      created: record.createdAt,
      expires: record.expiresAt ?? "never",
      revoked: record.revokedAt ?? "",
      ...(isAnyBanned && { bannedUntil: record.bannedUntil ?? "" }),
      ...(isAnyInGrace && {
        formerUntil: validFormerKeyEnds(key, now).at(-1)?.toISOString() ?? "",
      }),
    });
  }
  process.stdout.write(`${table.render()}\n`);
}

/** A former key is valid only as long as the key itself. */
function validFormerKeyEnds(key: KeyDetails, now: Date): readonly Date[] {
  if (keyState(key, now.getTime()) !== "active") return [];
  return key.formerKeyEnds.filter((end) => end > now);
}
