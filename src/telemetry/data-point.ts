import type { RequestRecord } from "./request-record.ts";

type Names<Value> = {
  [Name in keyof RequestRecord]: RequestRecord[Name] extends Value | null ? Name : never;
}[keyof RequestRecord];

/** What stands in each blob of a data point, in order: `""` for `null`. */
const BLOBS = [
  "route",
  "method",
  "code",
  "plan",
  "window",
  "region",
  "country",
  "degraded",
] as const satisfies readonly Names<string>[];

/** What stands in each double of a data point, in order: -1 for `null`. */
const DOUBLES = [
  "status",
  "durationMs",
  "limit",
  "remaining",
] as const satisfies readonly Names<number>[];

/** The index of requests without a key. Data is sampled by index, so a flood of them hides no key. */
const ANONYMOUS = "anonymous";

/** The column of the data set in which a field of the record stands. */
export const COLUMNS = {
  keyId: "index1",
  ...columns("blob", BLOBS),
  ...columns("double", DOUBLES),
} as const;

/**
 * The data point of one request in Workers Analytics Engine. Its limits are 96 bytes of index, 20
 * blobs of 16 KB in all, and 20 doubles; every field here is short by itself.
 */
export function toDataPoint(record: RequestRecord): AnalyticsEngineDataPoint {
  return {
    indexes: [record.keyId ?? ANONYMOUS],
    blobs: BLOBS.map((name) => record[name] ?? ""),
    doubles: DOUBLES.map((name) => record[name] ?? -1),
  };
}

function columns<Name extends string>(kind: string, names: readonly Name[]): Record<Name, string> {
  return Object.fromEntries(
    names.map((name, position) => [name, `${kind}${position + 1}`]),
  ) as Record<Name, string>;
}
