/** A data set that remembers what is written to it, and can be broken. */
export interface RecordingDataSet {
  readonly dataSet: AnalyticsEngineDataset;
  readonly points: AnalyticsEngineDataPoint[];
  /** From now on writing throws this; `null`: nothing. */
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

/** A data point as a row of the data set: `index1`, `blob1`, `double1` and so on. */
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
