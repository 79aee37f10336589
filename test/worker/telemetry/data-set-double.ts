/**
 * A test double of an Analytics Engine data set. It records the data points, and a test can make it
 * fail.
 */
interface RecordingDataSet {
  readonly dataSet: AnalyticsEngineDataset;
  readonly points: AnalyticsEngineDataPoint[];
  /** Makes all further writes throw this error; `null` makes them succeed. */
  readonly breakWith: (error: Error | null) => void;
}

export function recordingDataSet(): RecordingDataSet {
  const points: AnalyticsEngineDataPoint[] = [];
  let fault: Error | null = null;
  return {
    points,
    breakWith: (error) => void (fault = error),
    dataSet: {
      writeDataPoint(point = {}) {
        if (fault !== null) throw fault;
        points.push(point);
      },
    },
  };
}

/** Converts a data point to a row of the data set: `index1`, `blob1`, `double1` and so on. */
export function columnsOf({
  indexes = [],
  blobs = [],
  doubles = [],
}: AnalyticsEngineDataPoint): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [kind, values] of Object.entries({ index: indexes, blob: blobs, double: doubles })) {
    for (const [position, value] of values.entries()) row[`${kind}${position + 1}`] = value;
  }
  return row;
}
