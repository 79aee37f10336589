import { BLOBS, DOUBLES, type RequestRecord } from "./request-record.ts";

/**
 * The index of requests without a valid key. Analytics Engine samples each index separately, so a
 * flood of these requests does not thin out the data of any key.
 */
const ANONYMOUS = "anonymous";

/**
 * Converts a record to a data point of Workers Analytics Engine; `null` becomes `""` or -1. It fits:
 * an index of 96 bytes, 20 blobs of 16 KB in total, and 20 doubles are allowed.
 */
export function toDataPoint(record: RequestRecord): AnalyticsEngineDataPoint {
  return {
    indexes: [record.keyId ?? ANONYMOUS],
    blobs: BLOBS.map((name) => record[name] ?? ""),
    doubles: DOUBLES.map((name) => record[name] ?? -1),
  };
}
