import { and, desc, eq, gte, type SQL } from "drizzle-orm";
import type { BaseSQLiteDatabase } from "drizzle-orm/sqlite-core";
import { type KeyChangeDetails, keyChanges } from "../../worker/db/keys-schema.ts";
import { type KeySettingsJson, toSettingsJson } from "./key-json.ts";
import type { KeyDetails } from "./key-details.ts";

type Database = BaseSQLiteDatabase<"async", unknown>;

/** A change of a key, as the trail tells it. */
export type KeyChange = typeof keyChanges.$inferSelect;

/** Who changes a key in which way, and when. */
export type Operation = Pick<KeyChange, "action" | "actor" | "at">;

/** What the trail tells of a record, beside its id. */
const FIELDS = [
  "name",
  "plan",
  "perMinute",
  "perDay",
  "expiresAt",
  "revokedAt",
  "formerKeyEndsAt",
] as const satisfies readonly (keyof KeySettingsJson)[];

/** The fields in which two records of a key differ; all that are set, where there is none before. */
export function differences(before: KeyDetails | undefined, after: KeyDetails): KeyChangeDetails {
  const old = before && toSettingsJson(before);
  const record = toSettingsJson(after);
  const changes = FIELDS.map((field) => {
    return [field, { from: old?.[field] ?? null, to: record[field] }] as const;
  });
  return Object.fromEntries(changes.filter(([, { from, to }]) => from !== to));
}

/** The details of a change for people, on one line. */
export function describeDetails(details: KeyChangeDetails): string {
  const fields = Object.entries(details).map(([field, { from, to }]) =>
    from === null ? `${field}: ${to}` : `${field}: ${from} → ${to ?? "none"}`,
  );
  return fields.join(", ");
}

/** Which changes to list: of one key, since a time, and how many at the most. */
export interface TrailFilter {
  readonly keyId?: string | undefined;
  readonly since?: Date | undefined;
  readonly limit: number;
}

/** The changes that fit `filter`, the newest first. */
export async function listKeyChanges(
  database: Database,
  { keyId, since, limit }: TrailFilter,
): Promise<KeyChange[]> {
  const conditions: SQL[] = [];
  if (keyId !== undefined) conditions.push(eq(keyChanges.keyId, keyId));
  if (since !== undefined) conditions.push(gte(keyChanges.at, since));
  return database
    .select()
    .from(keyChanges)
    .where(and(...conditions))
    .orderBy(desc(keyChanges.id))
    .limit(limit);
}
