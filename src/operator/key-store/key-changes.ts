import sql, { type Sql } from "sql-template-tag";
import { assign, insertInto } from "../database/row.ts";
import { formatNumber, formatTime } from "../terminal-text.ts";
import { isInForce, type KeyDetails, toSettingsJson } from "./key-details.ts";

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** A change of an API key, as the audit trail (`key_changes`) records it. */
export interface Operation {
  readonly action: "create" | "update" | "rotate" | "revoke" | "reset" | "restore";
  readonly actor: string;
  readonly at: Date;
}

/** The old and new value of each changed field of a key. A field without a value is `null`. */
export type KeyChangeDetails = Readonly<
  Record<string, { readonly from: string | number | null; readonly to: string | number | null }>
>;

/** The fields whose changes the audit trail records. */
const FIELDS = [
  "name",
  "plan",
  "perMinute",
  "perDay",
  "expiresAt",
  "locationHint",
  "revokedAt",
  "formerKeyEndsAt",
] as const;

/** Returns the statements that store a new key and record its creation in the audit trail. */
export function creation(key: KeyDetails, actor: string): Sql[] {
  const { id: keyId, createdAt: at } = key;
  const details = differences(undefined, key);
  return [
    insertInto("api_keys", columnsOf(key)),
    insertInto("key_changes", { at, actor, action: "create", keyId, details }),
  ];
}

/**
 * Returns the statements that change a key and record the change. If the stored key has another
 * revision than `before`, their transaction fails with an error that `isOvertaken` recognizes.
 *
 * @param after has the next revision, by which limiters recognize the newer key.
 */
export function change(before: KeyDetails, after: KeyDetails, operation: Operation): Sql[] {
  const { id, revision } = before;
  const { at } = operation;
  const lifting = sql`
    UPDATE key_bans SET lifted_at = ${at.getTime()} WHERE key_id = ${id} AND ${isInForce(at)}`;
  return [
    insertInto("key_changes", {
      ...operation,
      // The subquery returns NULL if the stored key has another revision. The column `key_id` is
      // NOT NULL, so the transaction then fails.
      keyId: sql`(SELECT id FROM api_keys WHERE id = ${id} AND revision = ${revision})`,
      details: differences(before, after),
    }),
    sql`UPDATE api_keys SET ${assign(columnsOf(after))} WHERE id = ${id}`,
    ...(after.hash === before.hash ? [] : formerHashes(before, after, at)),
    ...(after.resets === before.resets ? [] : [lifting]),
  ];
}

function columnsOf({ formerKeyEnds: _ends, bannedUntil: _until, ...columns }: KeyDetails) {
  return columns;
}

/** Returns whether a change failed because another change of the same key was stored first. */
export function isOvertaken(error: Error): boolean {
  return error.message.includes("NOT NULL constraint failed: key_changes.key_id");
}

// Stores the hash and the expiry of the replaced secret. Makes older secrets expire no later than
// this secret. Deletes the hashes of expired secrets.
function formerHashes(
  { id: keyId, hash, lastFour }: KeyDetails,
  { formerKeyEnds }: KeyDetails,
  now: Date,
): Sql[] {
  const endsAt = formerKeyEnds.at(-1);
  if (endsAt === undefined) throw new TypeError("A new hash, but no end of the former one.");
  return [
    sql`DELETE FROM former_key_hashes WHERE key_id = ${keyId} AND ends_at <= ${now.getTime()}`,
    sql`
      UPDATE former_key_hashes SET ends_at = min(ends_at, ${endsAt.getTime()})
      WHERE key_id = ${keyId}`,
    insertInto("former_key_hashes", { hash, keyId, endsAt, lastFour }),
  ];
}

/** Returns the recorded fields where two states of a key differ; for a new key, all set fields. */
export function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  const former = before && toSettingsJson(before);
  const current = toSettingsJson(after);
  const changes = FIELDS.map((field) => {
    return [field, { from: former?.[field] ?? null, to: current[field] }] as const;
  });
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}

/** Formats the details of a change as one line of text. */
export function describeDetails(details: KeyChangeDetails): string {
  const fields = Object.entries(details).map(([field, { from, to }]) =>
    from === null ? `${field}: ${describe(to)}` : `${field}: ${describe(from)} → ${describe(to)}`,
  );
  return fields.join(", ");
}

function describe(value: string | number | null): string {
  if (typeof value === "number") return formatNumber(value);
  if (value === null) return "none";
  return ISO_TIME.test(value) ? formatTime(new Date(value)) : value;
}
