import { keyState, limitsOf } from "../../rules/keys/api-key.ts";
import { onSameStore, printData, printJson } from "../command-line.ts";
import { type KeyDetails, keyStateOrBan, toKeyJson } from "../key-store/key-details.ts";
import { formatTable, formatTime, formatUpright, type Row } from "../terminal-text.ts";

/** The columns that a narrow terminal may leave out, the most important column first. */
const OPTIONAL_COLUMNS = [
  "banned until",
  "expires",
  "per day",
  "per minute",
  "revoked",
  "ends in",
  "former key until",
  "near",
  "created",
];

/** Prints a key on stdout as JSON, or as text after printing `title` on stderr. */
export function printKey(
  key: KeyDetails,
  options: { json: boolean; title?: string; now?: Date },
): void {
  const { now = new Date() } = options;
  if (options.json) return printJson(toKeyJson(key, now));
  if (options.title !== undefined) process.stderr.write(`${options.title}\n\n`);
  printData(formatKey(key, now));
}

/**
 * Prints a new secret on stdout, and the key's details on stderr; with `json`, both on stdout. If
 * writing the secret fails, the command fails with a message that says what to do.
 */
export function printSecret(secret: string, key: KeyDetails, options: { json: boolean }): void {
  const now = new Date();
  const { id, ...rest } = toKeyJson(key, now);
  const data = options.json ? JSON.stringify({ id, key: secret, ...rest }) : secret;
  const rotate = onSameStore(`npm run keys -- rotate ${id}`);
  process.stdout.write(`${data}\n`, (error) => {
    if (error == null) return;
    process.stderr.write(
      `error: the new secret of ${id} could not be printed and is lost. Make another one:\n  ${rotate}\n`,
    );
    process.exitCode = 1;
  });
  if (options.json) return;
  process.stderr.write(`\nKeep this key now: it is not shown again.\n\n${formatKey(key, now)}`);
}

function formatKey(key: KeyDetails, now: Date): string {
  const { expires, ...row } = toRow(key, now);
  const ends = validFormerKeyEnds(key, now);
  return [
    formatUpright({ ...row, expires: expires ?? "never" }),
    ...ends.map((end) => `A former key is also valid until ${formatTime(end)}.\n`),
  ].join("");
}

/** Prints keys as a JSON array or as a table. Prints `none` on stderr instead of an empty table. */
export function printKeys(
  keys: readonly KeyDetails[],
  options: { json: boolean; none: string; now: Date },
): void {
  const { now } = options;
  if (options.json) return printJson(keys.map((key) => toKeyJson(key, now)));
  if (keys.length === 0) return void process.stderr.write(`${options.none}\n`);
  const rows = keys.map((key) => ({
    ...toRow(key, now),
    "former key until": validFormerKeyEnds(key, now).at(-1) ?? null,
  }));
  printData(formatTable(rows, { cut: ["name"], optional: OPTIONAL_COLUMNS }));
}

function toRow(key: KeyDetails, now: Date): Row {
  const { perMinute, perDay } = limitsOf(key);
  const state = keyStateOrBan(key, now);
  return {
    id: key.id,
    name: key.name,
    plan: key.plan,
    "per minute": perMinute,
    "per day": perDay,
    state: { text: state, isAlarm: state === "revoked" || state === "banned" },
    "ends in": key.lastFour,
    created: key.createdAt,
    expires: key.expiresAt,
    revoked: key.revokedAt,
    near: key.locationHint,
    "banned until": state === "banned" ? key.bannedUntil : null,
  };
}

function validFormerKeyEnds(key: KeyDetails, now: Date): readonly Date[] {
  const isUsable = keyState(key, now.getTime()) === "active";
  return isUsable ? key.formerKeyEnds.filter((end) => end > now) : [];
}
