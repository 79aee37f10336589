import type { RequestRecord } from "./request-record.ts";

type Names<Value> = {
  [Name in keyof RequestRecord]: RequestRecord[Name] extends Value | null ? Name : never;
}[keyof RequestRecord];

/** The fields in the blobs of a data point, in order. Add new fields at the end. */
export const BLOBS = [
  "route",
  "method",
  "code",
  "plan",
  "window",
  "region",
  "country",
  "degraded",
] as const satisfies readonly Names<string>[];

/** The fields in the doubles of a data point, in order. Add new fields at the end. */
export const DOUBLES = [
  "status",
  "durationMs",
  "limit",
  "remaining",
  "represents",
] as const satisfies readonly Names<number>[];

/**
 * The column of the Analytics Engine data set for each field of a record. Do not reorder fields,
 * because stored rows would then be read wrongly.
 */
export const COLUMNS = {
  keyId: "index1",
  ...columns("blob", BLOBS),
  ...columns("double", DOUBLES),
} as const;

function columns<Name extends string>(kind: string, names: readonly Name[]): Record<Name, string> {
  return Object.fromEntries(
    names.map((name, position) => [name, `${kind}${position + 1}`]),
  ) as Record<Name, string>;
}
