import type { KeyChangeDetails, keyChanges } from "../../schema/keys.ts";
import { type KeyDetails, toSettingsJson } from "./key-details.ts";
import { formatNumber, formatTime } from "../terminal-text.ts";

const ISO_TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** One entry of the audit trail: a change of a key. */
export type KeyChange = typeof keyChanges.$inferSelect;

/** The kind of change of a key, who makes the change, and when. */
export type Operation = Pick<KeyChange, "action" | "actor" | "at">;

/** The fields of a key whose changes an entry of the audit trail records. */
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

/**
 * Returns the fields in which a key differs from `before`. For a new key, `before` is `undefined`,
 * and the result has all fields that are set.
 */
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
