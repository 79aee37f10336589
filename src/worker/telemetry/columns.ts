import type { RequestRecord } from "./request-record.ts";

type Names<Value> = {
  [Name in keyof RequestRecord]: RequestRecord[Name] extends Value | null ? Name : never;
}[keyof RequestRecord];

/** What stands in each blob of a data point, in order: `""` for `null`. New ones go to the end. */
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

/** What stands in each double of a data point, in order: -1 for `null`. New ones go to the end. */
export const DOUBLES = [
  "status",
  "durationMs",
  "limit",
  "remaining",
  "represents",
] as const satisfies readonly Names<number>[];

/** The column of the data set in which a field of the record stands. */
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
