import { keyState } from "../../worker/api-keys/api-key.ts";
import { toKeyJson } from "../key-store/key-json.ts";
import type { KeyDetails } from "../key-store/key-details.ts";
import { printJson } from "../command-line.ts";
import { type TextRow, textTable } from "../text-table.ts";

/**
 * Prints a key as JSON, or as a table below `title`, followed by its former keys that are valid.
 */
export function printKey(key: KeyDetails, options: { json: boolean; title?: string }): void {
  const now = new Date();
  if (options.json) return printJson(toKeyJson(key, now));
  if (options.title !== undefined) process.stdout.write(`${options.title}\n`);
  printTable([key], now);
  for (const end of validFormerKeyEnds(key, now)) {
    process.stdout.write(`A former key is also valid until ${end.toISOString()}.\n`);
  }
}

/**
 * Prints keys as one JSON array, or as a table. Without `json` and keys, prints the text `none`.
 */
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
  const hasFormerKeys = keys.some((key) => validFormerKeyEnds(key, now).length > 0);
  const hasRegions = keys.some((key) => key.locationHint !== null);
  const hasBans = keys.some((key) => toKeyJson(key, now).bannedUntil !== null);
  const rows = keys.map((key): TextRow => {
    const shown = toKeyJson(key, now);
    return {
      id: shown.id,
      name: shown.name,
      "key ends in": shown.lastFour ?? "unknown",
      plan: shown.plan,
      "per minute": shown.perMinute,
      "per day": shown.perDay,
      state: shown.state,
      created: shown.createdAt,
      expires: shown.expiresAt ?? "never",
      revoked: shown.revokedAt ?? "",
      ...(hasRegions && { near: shown.locationHint ?? "" }),
      ...(hasBans && { "banned until": shown.bannedUntil ?? "" }),
      ...(hasFormerKeys && {
        "former key until": validFormerKeyEnds(key, now).at(-1)?.toISOString() ?? "",
      }),
    };
  });
  process.stdout.write(`${textTable(rows)}\n`);
}

/**
 * Returns when the former secrets of a key that are still valid become invalid. An expired or
 * revoked key has no valid former secrets.
 */
function validFormerKeyEnds(key: KeyDetails, now: Date): readonly Date[] {
  if (keyState(key, now.getTime()) !== "active") return [];
  return key.formerKeyEnds.filter((end) => end > now);
}
