import type { RequestRecord } from "./request-record.ts";

type Names<Value> = {
  [Name in keyof RequestRecord]: RequestRecord[Name] extends Value | null ? Name : never;
}[keyof RequestRecord];

/**
 * The fields in the blobs of a data point, in order. Add new fields at the end, because the stored
 * rows have no names.
 */
export const BLOBS = [
  "route",
  "method",
  "code",
  "plan",
  "window",
  "region",
  "country",
  "degraded",
  "servedBy",
] as const satisfies readonly Names<string>[];

/** The fields in the doubles of a data point, in order. Add new fields at the end. */
export const DOUBLES = [
  "status",
  "durationMs",
  "limit",
  "remaining",
  "represents",
] as const satisfies readonly Names<number>[];
