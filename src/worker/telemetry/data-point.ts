import { BLOBS, DOUBLES } from "./columns.ts";
import type { RequestRecord } from "./request-record.ts";

/** The index of requests without a valid key. Sampling is by index, so a flood hides no key. */
const ANONYMOUS = "anonymous";

/**
 * Converts a record to a data point of Workers Analytics Engine, with `""` or -1 for `null`. The
 * limits are 96 bytes of index, 20 blobs of 16 KB together, and 20 doubles; every field is short.
 */
export function toDataPoint(record: RequestRecord): AnalyticsEngineDataPoint {
  return {
    indexes: [record.keyId ?? ANONYMOUS],
    blobs: BLOBS.map((name) => record[name] ?? ""),
    doubles: DOUBLES.map((name) => record[name] ?? -1),
  };
}
