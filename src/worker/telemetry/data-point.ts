import { BLOBS, DOUBLES } from "./columns.ts";
import type { RequestRecord } from "./request-record.ts";

/** The index of requests without a key. Data is sampled by index, so a flood of them hides no key. */
const ANONYMOUS = "anonymous";

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
